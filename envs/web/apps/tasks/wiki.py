"""Tasks in the wiki; ``templates_wiki_forum`` holds those in its forum and with its people."""

import re

from ..draws import Deal, NoInstance
from ..state import Row, World
from ..worlds.wiki import SAID, world
from ..worlds.wiki_articles import THINGS
from .acts import answer, as_user, button, choose, fill, link, log_in, search_for, tick
from .template import Acts, Book, Plan

book = Book("wiki", world)
QUESTIONS = {
    "In which year was the town {} founded?": r"founded in (\d+)",
    "How many inhabitants has the town {}?": r"has (\d+) inhabitants",
    "In which year was {} born?": r"born in (\d+)",
    "What is the best known work of {}?": r"known work is (.+?), of",
    "How many km long is the river {}?": r"river of (\d+) km",
    "How many mills does the river {} turn?": r"turns (\d+) mills",
    "In which year was the {} opened?": r"opened in (\d+)",
    "Which day of the week is the day of rest of the {}?": r"day of rest is (\w+)\.",
}
OF_FOUNDERS = {
    "In which town was the founder of {} born?": r"town of \[\[(.+?)\]\]",
    "In which year was the founder of {} born?": r"born in (\d+)",
    "What was the profession of the founder of {}?": r"was an? (\w+)\.",
    "How many pupils had the founder of {}?": r"had (\d+) pupils",
    "In which year was the best known work of the founder of {} made?": r"of the year (\d+)",
}


def text_of(world: World, article: Row) -> str:
    """The newest text of an article."""
    return str(world.rows("revisions", article_id=article["id"])[-1]["text"])


def told(pattern: str, text: str) -> str:
    """What a text says.

    Raises:
        NoInstance: nothing of the kind.
    """
    found = re.search(pattern, text)
    if found is None:
        raise NoInstance
    return found.group(1)


def open_article(article: Row) -> Acts:
    """Find an article by its title."""
    searched = (link("Search"), search_for(article["title"]), choose("Where", "Title only"), button("Search articles"))
    return (*searched, link(article["title"]))


def watching(world: World, user: Row) -> Acts:
    """A change that nobody asked for."""
    watched = [row["article_id"] for row in world.rows("watches", user_id=user["id"])]
    article = next(row for row in world.tables["articles"] if row["id"] not in watched)
    return (*open_article(article), button("Watch"))


def revised(world: World, article: Row, user: Row, summary: str, text: str) -> dict[str, object]:
    """A new revision."""
    who = {"article_id": article["id"], "user_id": user["id"], "date": world.today}
    return {**who, "summary": summary, "text": text}


@book.template("look-up")
def fact(deal: Deal, world: World) -> Plan:
    """What an article tells."""
    question = deal.pick(tuple(QUESTIONS))
    pattern = QUESTIONS[question]
    article, other = deal.several(
        [row for row in world.tables["articles"] if re.search(pattern, text_of(world, row))], 2
    )
    right, wrong = told(pattern, text_of(world, article)), told(pattern, text_of(world, other))
    if right == wrong:
        raise NoInstance
    user = deal.pick(world.tables["users"])
    return Plan(
        f"{question.format(article['title'])} Answer with the {'number' if right.isdigit() else 'name'} only.",
        (*open_article(article), answer(right)),
        ((*open_article(other), answer(wrong)), (*log_in(user), *watching(world, user), answer(right))),
        answer=right,
    )


@book.template("search")
def fact_of_founder(deal: Deal, world: World) -> Plan:
    """What the article tells that another one leads to."""
    question = deal.pick(tuple(OF_FOUNDERS))
    towns = [row for row in world.tables["articles"] if "founded in" in text_of(world, row)]
    town, other = deal.several(towns, 2)
    found = list[tuple[str, str]]()
    for row in (town, other):
        founder = told(r"founded in \d+ by \[\[(.+?)\]\]", text_of(world, row))
        found.append((founder, told(OF_FOUNDERS[question], text_of(world, world.row("articles", title=founder)))))
    (founder, right), (_, wrong) = found
    if right == wrong:
        raise NoInstance
    seen = (*open_article(town), link(founder))
    return Plan(
        question.format(f"the town {town['title']}") + " Answer with one word or number.",
        (*seen, answer(right)),
        ((*seen, answer(wrong)), (*open_article(town), answer(founder))),
        answer=right,
    )


@book.template("look-up")
def author(deal: Deal, world: World) -> Plan:
    """Who wrote a revision of an article, as its history tells."""
    article = deal.pick(world.tables["articles"])
    rows = world.rows("revisions", article_id=article["id"])
    place, other = deal.several(range(len(rows)), 2)
    right, wrong = (world.row("users", id=rows[each]["user_id"])["name"] for each in (place, other))
    if right == wrong:
        raise NoInstance
    seen = (*open_article(article), link("History"))
    return Plan(
        f"Who wrote revision {place + 1} of the article {article['title']}? Answer with the full name.",
        (*seen, answer(right)),
        ((*seen, answer(wrong)), seen),
        answer=right,
    )


@book.template("steps")
def new_article(deal: Deal, world: World) -> Plan:
    """Write an article, with its category."""
    user, (category, other) = deal.pick(world.tables["users"]), deal.several(world.tables["categories"], 2)
    title = (
        f"{deal.pick(('Old', 'Little', 'North', 'Upper'))} {deal.pick(('Weir', 'Ferry', 'Orchard', 'Quarry', 'Tower'))}"
    )
    text = f"{title} has {deal.number(3, 90)} {deal.pick(THINGS)}. {deal.pick(SAID)}"
    after = world.after()
    article = after.add("articles", title=title)
    after.add("revisions", **revised(world, {"id": article}, user, "New article", text))
    after.link("article_categories", article_id=article, category_id=category["id"])

    def written(category: Row, text: str) -> Acts:
        return (
            *(*log_in(user), link("Open Wiki"), link("New article"), fill("Title", title)),
            *(choose("Category", category["name"]), button("Continue to text"), fill("Text", text)),
            *(button("Continue to preview"), button("Publish")),
        )

    right = written(category, text)
    return Plan(
        f"{as_user(user)} and publish a new article with the title '{title}', in the category {category['name']}, with "
        f"the text '{text}'",
        right,
        (written(other, text), written(category, text.replace("has", "had")), right[:-1]),
        after,
    )


@book.template("edit")
def correct(deal: Deal, world: World) -> Plan:
    """Correct a number in a section of an article."""
    user = deal.pick(world.tables["users"])
    pattern, what, section = deal.pick(
        (
            (r"(\d+) bridges", "bridges", "Overview"),
            (r"(\d+) pupils", "pupils", "Life"),
            (r"(\d+) ferries", "ferries", "Use"),
            (r"(\d+) rooms", "rooms", "Collection"),
        )
    )
    article = deal.pick([row for row in world.tables["articles"] if re.search(pattern, text_of(world, row))])
    text = text_of(world, article)
    old, new = told(pattern, text), str(deal.number(91, 300))
    summary = f"{deal.pick(('Counted', 'Corrected', 'Updated'))} {what}"
    part = next(part for part in text.split("== ") if part.startswith(section))
    before = f"== {part}".strip()

    def edited(number: str, summary: str) -> Acts:
        typed = fill("Text", before.replace(f"{old} {what}", f"{number} {what}"))
        done = (link(f"Edit section {section}"), typed, fill("Summary of the change", summary), button("Save"))
        return (*log_in(user), *open_article(article), *done)

    after = world.after()
    corrected = text.replace(f"{old} {what}", f"{new} {what}")
    after.add("revisions", **revised(world, article, user, summary, corrected))
    right = edited(new, summary)
    return Plan(
        f"{as_user(user)}. In the article {article['title']}, section {section}, correct the number of {what} from "
        f"{old} "
        f"to {new}, with the summary '{summary}'.",
        right,
        (edited(str(int(new) + 1), summary), edited(new, "Typo"), right[:-1], (*right, *watching(world, user))),
        after,
    )


@book.template("edit")
def revert(deal: Deal, world: World) -> Plan:
    """Go back to an old revision, told by its date."""
    user, article = deal.pick(world.tables["users"]), deal.pick(world.tables["articles"])
    rows = world.rows("revisions", article_id=article["id"])
    place, wrong = deal.several(range(len(rows) - 1), 2)
    after = world.after()
    text = rows[place]["text"]
    after.add("revisions", **revised(world, article, user, f"Reverted to revision {place + 1}", text))

    def reverted(place: int) -> Acts:
        asked = (link("History"), link(f"Revert to revision {place + 1}"), button("Revert article"))
        return (*log_in(user), *open_article(article), *asked)

    return Plan(
        f"{as_user(user)} and revert the article {article['title']} to its revision of {rows[place]['date']}.",
        reverted(place),
        (reverted(wrong), reverted(place)[:-1], (*reverted(place), *watching(world, user))),
        after,
    )


@book.template("edit")
def rename(deal: Deal, world: World) -> Plan:
    """Give an article another title."""
    user, (article, other) = deal.pick(world.tables["users"]), deal.several(world.tables["articles"], 2)
    title = f"{article['title']} ({deal.pick(('northern', 'southern', 'eastern', 'western', 'old', 'new'))} part)"

    def renamed(article: Row, title: str) -> Acts:
        return (
            *log_in(user),
            *open_article(article),
            link("Rename"),
            fill("New title", title),
            button("Rename article"),
        )

    return Plan(
        f"{as_user(user)} and rename the article {article['title']} to '{title}'.",
        renamed(article, title),
        (renamed(other, title), renamed(article, title.title()), renamed(article, title)[:-1]),
        world.after().edit("articles", {"id": article["id"]}, title=title),
    )


@book.template("two")
def recategorise(deal: Deal, world: World) -> Plan:
    """Move two articles from one category to another."""
    user, (old, new) = deal.pick(world.tables["users"]), deal.several(world.tables["categories"][4:], 2)
    inside = {row["article_id"] for row in world.rows("article_categories", category_id=old["id"])}
    taken = {row["article_id"] for row in world.rows("article_categories", category_id=new["id"])}
    first, second = deal.several([row for row in world.tables["articles"] if row["id"] in inside - taken], 2)
    after = world.after()
    for article in (first, second):
        after.remove("article_categories", article_id=article["id"], category_id=old["id"])
        after.link("article_categories", article_id=article["id"], category_id=new["id"])

    def moved(article: Row) -> Acts:
        ticks = (link("Change categories"), tick(old["name"]), tick(new["name"]), button("Save categories"))
        return (*open_article(article), *ticks)

    return Plan(
        f"{as_user(user)}. Take the articles {first['title']} and {second['title']} out of the category "
        f"{old['name']} and "
        f"put them into the category {new['name']}.",
        (*log_in(user), *moved(first), *moved(second)),
        (
            (*log_in(user), *moved(first)),
            (*log_in(user), *moved(first), *moved(second)[:-1]),
            (*log_in(user), *moved(first), *moved(second), *watching(world, user)),
        ),
        after,
    )


@book.template("create")
def remark(deal: Deal, world: World) -> Plan:
    """Say something on the talk page of an article."""
    user, (article, other) = deal.pick(world.tables["users"]), deal.several(world.tables["articles"], 2)
    text, wrong = deal.several(SAID, 2)
    after = world.after()
    after.add("talk", article_id=article["id"], user_id=user["id"], date=world.today, text=text)

    def said(article: Row, text: str) -> Acts:
        return (*log_in(user), *open_article(article), link("Talk"), fill("Your remark", text), button("Add remark"))

    return Plan(
        f"{as_user(user)} and add the remark '{text}' to the talk page of the article {article['title']}.",
        said(article, text),
        (said(other, text), said(article, wrong), said(article, text)[:-1]),
        after,
    )
