"""People of a world: names, logins, and passwords, which are part of a task and not secret."""

from ....draws import SeededDraws, words

FIRST = words(
    "Ada Bela Carla Dario Elif Femi Greta Hana Ivo Jonas Kira Liam Mira Nadia Omar Petra Quinn Rosa Samir Tara Umberto "
    "Vera Wanda Xenia Yusuf Zoe"
)
LAST = words(
    "Abend Brook Costa Dunn Elk Frost Gale Holm Iversen Jansen Kowal Lind Moreau Novak Olsen Perez Quist Rossi Stone "
    "Tanaka Ueda Varga Weber Yilmaz Zeller"
)
WORDS = words("plum cedar amber delta maple river cobalt falcon ginger hazel indigo juniper koala lemon mango")


def people(draws: SeededDraws, count: int) -> list[dict[str, str]]:
    """Draw people with different first names, as rows with login, password, name and email."""
    found = []
    for first in draws.sample(FIRST, count):
        login = first.lower()
        found.append(
            {
                "login": login,
                "password": f"{draws.choice(WORDS)}-{draws.integer(10, 99)}",
                "name": f"{first} {draws.choice(LAST)}",
                "email": f"{login}@example.com",
            }
        )
    return found


def day(days_before: int) -> str:
    """Return a date before the end of May 2031 as YYYY-MM-DD, in a calendar whose months have 28 days."""
    months, days = divmod(days_before, 28)
    years, month = divmod(4 - months, 12)
    return f"{2031 + years}-{month + 1:02}-{28 - days:02}"
