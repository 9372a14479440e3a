"""People for a world: names, logins and passwords that are part of a task and no secret."""

from ..draws import Deal, words

FIRST = words(
    "Ada Bela Carla Dario Elif Femi Greta Hana Ivo Jonas Kira Liam Mira Nadia Omar Petra Quinn Rosa Samir Tara Umberto "
    "Vera Wanda Xenia Yusuf Zoe"
)
LAST = words(
    "Abend Brook Costa Dunn Elk Frost Gale Holm Iversen Jansen Kowal Lind Moreau Novak Olsen Perez Quist Rossi Stone "
    "Tanaka Ueda Varga Weber Yilmaz Zeller"
)
WORDS = words("plum cedar amber delta maple river cobalt falcon ginger hazel indigo juniper koala lemon mango")


def people(deal: Deal, count: int) -> list[dict[str, str]]:
    """So many people, with different first names, as rows with login, password, name and email."""
    found = []
    for first in deal.several(FIRST, count):
        login = first.lower()
        found.append(
            {
                "login": login,
                "password": f"{deal.pick(WORDS)}-{deal.number(10, 99)}",
                "name": f"{first} {deal.pick(LAST)}",
                "email": f"{login}@example.com",
            }
        )
    return found


def day(number: int) -> str:
    """The date so many days before the end of May 2031, as YYYY-MM-DD; months have 28 days here, so none is wrong."""
    months, days = divmod(number, 28)
    years, month = divmod(4 - months, 12)
    return f"{2031 + years}-{month + 1:02}-{28 - days:02}"
