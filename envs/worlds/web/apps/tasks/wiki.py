"""Tasks on the articles of the wiki. The tasks in its forum, on messages and on profiles are in ``wiki_forum``."""

import re

from .....draws import NoInstance, SeededDraws
from ..server.changes import publish, revise
from ..state import Row, World
from ..worlds.wiki import WORDS, world
from .plans import change, question
from .template import Acts, AppRegistry, Plan, answer, as_user, button, choose, fill, link, log_in, search_for, tick

registry = AppRegistry("wiki", world)
QUESTIONS = {
    "In which year was the town {} founded?": r"founded in (\d+)",
    "What is the population of the town {}?": r"has (\d+) inhabitants",
    "In which year was {} born?": r"born in (\d+)",
    "What is the best-known work of {}?": r"known work is (.+?), from",
    "How long is the river {}, in km?": r"a river, (\d+) km",
    "How many mills does the river {} power?": r"powers (\d+) mills",
    "In which year did the {} open?": r"opened in (\d+)",
    "On which weekday is the {} closed?": r"closed on (\w+)s\.",
}
OF_FOUNDERS = {
    "In which town was the founder of {} born?": r"town of \[\[(.+?)\]\]",
    "In which year was the founder of {} born?": r"born in (\d+)",
    "What was the profession of the founder of {}?": r"was an? (\w+)\.",
    "How many pupils did the founder of {} have?": r"had (\d+) pupils",
    "From which year is the best-known work of the founder of {}?": r"from the year (\d+)",
}


def text_of(world: World, article: Row) -> str:
    """Return the newest text of an article."""
    return str(world.find("revisions", article_id=article["id"])[-1]["text"])


def extract(pattern: str, text: str) -> str:
    """Return the first group of a pattern in a text. Raises NoInstance: the pattern does not occur."""
    found = re.search(pattern, text)
    if found is None:
        raise NoInstance
    return found.group(1)


def open_article(article: Row) -> Acts:
    """Find an article by its title."""
    searched = (link("Search"), search_for(article["title"]), choose("Where", "Title only"), button("Search articles"))
    return (*searched, link(article["title"]))


def unrequested_watch(world: World, user: Row) -> Acts:
    """Make a change that no goal requests: watch an article."""
    watched = [row["article_id"] for row in world.find("watches", user_id=user["id"])]
    article = next(row for row in world.tables["articles"] if row["id"] not in watched)
    return (*open_article(article), button("Watch"))


@registry.template("lookup")
def fact(draws: SeededDraws, world: World) -> Plan:
    """Look up a fact in an article."""
    asked, pattern = draws.choice(tuple(QUESTIONS.items()))
    article, other = draws.sample(
        [row for row in world.tables["articles"] if re.search(pattern, text_of(world, row))], 2
    )
    right, wrong = extract(pattern, text_of(world, article)), extract(pattern, text_of(world, other))
    if right == wrong:
        raise NoInstance
    user = draws.choice(world.tables["users"])
    goal = f"{asked.format(article['title'])} Answer with the {'number' if right.isdigit() else 'name'} only."
    more = (*log_in(user), *unrequested_watch(world, user), answer(right))
    return question(goal, open_article(article), right, (*open_article(other), answer(wrong)), more)


@registry.template("search")
def fact_of_founder(draws: SeededDraws, world: World) -> Plan:
    """Look up a fact in an article that another one links to."""
    asked, pattern = draws.choice(tuple(OF_FOUNDERS.items()))
    towns = [row for row in world.tables["articles"] if "founded in" in text_of(world, row)]
    town, other = draws.sample(towns, 2)
    found = list[tuple[str, str]]()
    for row in (town, other):
        founder = extract(r"founded in \d+ by \[\[(.+?)\]\]", text_of(world, row))
        found.append((founder, extract(pattern, text_of(world, world.row("articles", title=founder)))))
    (founder, right), (_, wrong) = found
    if right == wrong:
        raise NoInstance
    seen = (*open_article(town), link(founder))
    goal = asked.format(f"the town {town['title']}") + " Answer with one word or number."
    return question(goal, seen, right, (*seen, answer(wrong)), (*open_article(town), answer(founder)))


@registry.template("lookup")
def author(draws: SeededDraws, world: World) -> Plan:
    """Look up the author of a revision in an article's history."""
    article = draws.choice(world.tables["articles"])
    rows = world.find("revisions", article_id=article["id"])
    place, other = draws.sample(range(len(rows)), 2)
    right, wrong = (world.row("users", id=rows[each]["user_id"])["name"] for each in (place, other))
    if right == wrong:
        raise NoInstance
    seen = (*open_article(article), link("History"))
    goal = f"Who wrote revision {place + 1} of the article {article['title']}? Answer with the full name."
    return question(goal, seen, right, (*seen, answer(wrong)), seen)


@registry.template("wizard")
def new_article(draws: SeededDraws, world: World) -> Plan:
    """Publish an article in a category."""
    user, (category, other) = draws.choice(world.tables["users"]), draws.sample(world.tables["categories"], 2)
    prefix = draws.choice(("Old", "Little", "North", "Upper"))
    title = f"{prefix} {draws.choice(('Weir', 'Ferry', 'Orchard', 'Quarry', 'Tower'))}"
    text = f"{title} has {draws.integer(3, 90)} {draws.choice(WORDS['things'])}. {draws.choice(WORDS['remarks'])}"
    expected = world.expected_state()
    publish(expected, world.today, user["id"], title, text, category["id"])

    def written(category: Row, text: str) -> Acts:
        return (
            *(link("Open Wiki"), link("New article"), fill("Title", title)),
            *(choose("Category", category["name"]), button("Continue to text"), fill("Text", text)),
            *(button("Continue to preview"), button("Publish")),
        )

    goal = (
        f"{as_user(user)} and publish a new article with the title '{title}' in the category {category['name']}, with "
        f"the text '{text}'"
    )
    wrong = written(other, text), written(category, text.replace("has", "had"))
    return change(goal, user, expected, written(category, text), *wrong)


@registry.template("edit")
def correct(draws: SeededDraws, world: World) -> Plan:
    """Correct a number in a section of an article."""
    user = draws.choice(world.tables["users"])
    pattern, what, section = draws.choice(
        (
            (r"(\d+) bridges", "bridges", "Overview"),
            (r"(\d+) pupils", "pupils", "Life"),
            (r"(\d+) ferries", "ferries", "Use"),
            (r"(\d+) rooms", "rooms", "Collection"),
        )
    )
    article = draws.choice([row for row in world.tables["articles"] if re.search(pattern, text_of(world, row))])
    text = text_of(world, article)
    old, new = extract(pattern, text), str(draws.integer(91, 300))
    summary = f"{draws.choice(('Counted', 'Corrected', 'Updated'))} {what}"
    part = next(part for part in text.split("== ") if part.startswith(section))
    before = f"== {part}".strip()

    def edited(number: str, summary: str) -> Acts:
        typed = fill("Text", before.replace(f"{old} {what}", f"{number} {what}"))
        done = (link(f"Edit section {section}"), typed, fill("Summary of the change", summary), button("Save"))
        return (*open_article(article), *done)

    expected = world.expected_state()
    corrected = text.replace(f"{old} {what}", f"{new} {what}")
    revise(expected, world.today, user["id"], article["id"], summary, corrected)
    goal = (
        f"{as_user(user)}. In the article {article['title']}, section {section}, correct the number of {what} from "
        f"{old} to {new}. Use the summary '{summary}'."
    )
    right, more = edited(new, summary), unrequested_watch(world, user)
    wrong = edited(str(int(new) + 1), summary), edited(new, "Typo"), (*right, *more)
    return change(goal, user, expected, right, *wrong)


@registry.template("edit")
def revert(draws: SeededDraws, world: World) -> Plan:
    """Revert to an old revision, identified by its date."""
    user, article = draws.choice(world.tables["users"]), draws.choice(world.tables["articles"])
    rows = world.find("revisions", article_id=article["id"])
    place, wrong = draws.sample(range(len(rows) - 1), 2)
    expected = world.expected_state()
    text = rows[place]["text"]
    revise(expected, world.today, user["id"], article["id"], f"Reverted to revision {place + 1}", text)

    def reverted(place: int) -> Acts:
        form = (link("History"), link(f"Revert to revision {place + 1}"), button("Revert article"))
        return (*open_article(article), *form)

    goal = f"{as_user(user)} and revert the article {article['title']} to its revision from {rows[place]['date']}."
    right, more = reverted(place), unrequested_watch(world, user)
    return change(goal, user, expected, right, reverted(wrong), (*right, *more))


@registry.template("edit")
def rename(draws: SeededDraws, world: World) -> Plan:
    """Rename an article."""
    user, (article, other) = draws.choice(world.tables["users"]), draws.sample(world.tables["articles"], 2)
    title = f"{article['title']} ({draws.choice(('northern', 'southern', 'eastern', 'western', 'old', 'new'))} part)"

    def renamed(article: Row, title: str) -> Acts:
        return (*open_article(article), link("Rename"), fill("New title", title), button("Rename article"))

    goal = f"{as_user(user)} and rename the article {article['title']} to '{title}'."
    expected = world.expected_state().edit("articles", {"id": article["id"]}, title=title)
    wrong = renamed(other, title), renamed(article, title.title())
    return change(goal, user, expected, renamed(article, title), *wrong)


@registry.template("compound")
def recategorize(draws: SeededDraws, world: World) -> Plan:
    """Move two articles from one category to another."""
    user, (old, new) = draws.choice(world.tables["users"]), draws.sample(world.tables["categories"][4:], 2)
    inside = {row["article_id"] for row in world.find("article_categories", category_id=old["id"])}
    taken = {row["article_id"] for row in world.find("article_categories", category_id=new["id"])}
    first, second = draws.sample([row for row in world.tables["articles"] if row["id"] in inside - taken], 2)
    expected = world.expected_state()
    for article in (first, second):
        expected.remove("article_categories", article_id=article["id"], category_id=old["id"])
        expected.link("article_categories", article_id=article["id"], category_id=new["id"])

    def moved(article: Row) -> Acts:
        ticks = (link("Change categories"), tick(old["name"]), tick(new["name"]), button("Save categories"))
        return (*open_article(article), *ticks)

    goal = (
        f"{as_user(user)}. Remove the articles {first['title']} and {second['title']} from the category {old['name']} "
        f"and add them to the category {new['name']}."
    )
    right = (*moved(first), *moved(second))
    return change(goal, user, expected, right, moved(first), (*right, *unrequested_watch(world, user)))


@registry.template("create")
def remark(draws: SeededDraws, world: World) -> Plan:
    """Add a remark to the talk page of an article."""
    user, (article, other) = draws.choice(world.tables["users"]), draws.sample(world.tables["articles"], 2)
    text, wrong = draws.sample(WORDS["remarks"], 2)
    expected = world.expected_state()
    expected.add("talk", article_id=article["id"], user_id=user["id"], date=world.today, text=text)

    def added(article: Row, text: str) -> Acts:
        return (*open_article(article), link("Talk"), fill("Your remark", text), button("Add remark"))

    goal = f"{as_user(user)} and add the remark '{text}' to the talk page of the article {article['title']}."
    return change(goal, user, expected, added(article, text), added(other, text), added(article, wrong))
