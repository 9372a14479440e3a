"""A tab's loading state, by the events of the browser."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.web.driver.tabs import Tab


def tab(document: str = "a") -> Tab:
    made = Tab(None, None)
    displays(made, document)
    return made


def requests(made: Tab, document: str, frame: str = "main", kind: str = "Document") -> None:
    request = {"url": "http://127.0.0.1/"}
    made.on_request({"requestId": document, "loaderId": document, "frameId": frame, "type": kind, "request": request})


def displays(made: Tab, document: str) -> None:
    made.on_navigated({"id": "main", "loaderId": document, "url": ""})
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": document})


def test_a_document_is_awaited_until_it_is_parsed() -> None:
    made = tab()
    assert not made.navigating
    requests(made, "b")
    assert made.navigating
    made.on_navigated({"id": "main", "loaderId": "b", "url": ""})
    assert made.navigating
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": "a"})
    assert made.navigating
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": "b"})
    assert not made.navigating


def test_a_redirect_is_one_document_and_a_failure_ends_the_wait() -> None:
    made = tab()
    requests(made, "b")
    requests(made, "b")
    made.on_failed({"requestId": "b"})
    assert not made.navigating


def test_an_immediate_second_navigation_extends_the_wait() -> None:
    made = tab()
    requests(made, "b")
    made.on_navigated({"id": "main", "loaderId": "b", "url": ""})
    requests(made, "c")
    made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": "b"})
    assert made.navigating
    displays(made, "c")
    assert not made.navigating


def test_inner_frames_and_images_are_not_documents() -> None:
    made = tab()
    requests(made, "b", frame="inner")
    requests(made, "c", kind="Image")
    made.on_navigated({"id": "inner", "parentId": "main", "loaderId": "b"})
    assert not made.navigating
    assert made.fetching == {"c"}
    made.on_failed({"requestId": "c"})
    assert not made.fetching


@given(
    st.lists(st.tuples(st.sampled_from(["requests", "navigates", "parses", "fails"]), st.integers(0, 5)), max_size=30)
)
def test_the_last_document_ends_the_wait_after_any_events(events: list[tuple[str, int]]) -> None:
    made = tab()
    for event, number in events:
        document = f"d{number}"
        match event:
            case "requests":
                requests(made, document)
            case "navigates":
                made.on_navigated({"id": "main", "loaderId": document, "url": ""})
            case "parses":
                made.on_lifecycle({"name": "DOMContentLoaded", "loaderId": document})
            case _:
                made.on_failed({"requestId": document})
    requests(made, "last")
    assert made.navigating
    displays(made, "last")
    assert not made.navigating
