"""What a tab is waited for, by what the browser tells of it."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.web.driver.tabs import Tab


def tab(document: str = "a") -> Tab:
    made = Tab(None, None)
    shows(made, document)
    return made


def asks(made: Tab, document: str, frame: str = "main", kind: str = "Document") -> None:
    made.on_request({"requestId": document, "loaderId": document, "frameId": frame, "type": kind})


def shows(made: Tab, document: str) -> None:
    made.on_navigated({"id": "main", "loaderId": document})
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": document})


def test_a_document_is_waited_for_until_it_is_read() -> None:
    made = tab()
    assert not made.navigating
    asks(made, "b")
    assert made.navigating
    made.on_navigated({"id": "main", "loaderId": "b"})
    assert made.navigating
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": "a"})
    assert made.navigating
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": "b"})
    assert not made.navigating


def test_a_redirect_is_one_document_and_a_failure_is_none() -> None:
    made = tab()
    asks(made, "b")
    asks(made, "b")
    made.on_failed({"requestId": "b"})
    assert not made.navigating


def test_a_page_that_sends_on_at_once_is_not_shown_between() -> None:
    made = tab()
    asks(made, "b")
    made.on_navigated({"id": "main", "loaderId": "b"})
    asks(made, "c")
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": "b"})
    assert made.navigating
    shows(made, "c")
    assert not made.navigating


def test_frames_inside_and_pictures_are_no_documents() -> None:
    made = tab()
    asks(made, "b", frame="inner")
    asks(made, "c", kind="Image")
    made.on_navigated({"id": "inner", "parentId": "main", "loaderId": "b"})
    assert not made.navigating
    assert made.fetching == {"c"}
    made.on_failed({"requestId": "c"})
    assert not made.fetching


@given(st.lists(st.tuples(st.sampled_from(["asks", "moves", "reads", "fails"]), st.integers(0, 5)), max_size=30))
def test_whatever_happened_the_last_document_ends_the_wait(events: list[tuple[str, int]]) -> None:
    made = tab()
    for what, number in events:
        document = f"d{number}"
        match what:
            case "asks":
                asks(made, document)
            case "moves":
                made.on_navigated({"id": "main", "loaderId": document})
            case "reads":
                made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": document})
            case _:
                made.on_failed({"requestId": document})
    asks(made, "last")
    assert made.navigating
    shows(made, "last")
    assert not made.navigating
