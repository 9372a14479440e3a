"""The schema of the API: every response is as it states, and a parameter that it lacks is refused."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient
from turnwise.console.viewer.pages import runs
from turnwise.tests.console.viewer.test_pages import PAGES

RECORDS = (
    *PAGES,
    "/runs/r/now",
    "/runs/r/series",
    "/runs/s/series?cursor=0.0.0.0",
    "/trajectories/b-0/tokens",
    "/trajectories/b-0?view=tokens",
    "/trajectories/a-0?turn=1&quote=page&field=observation",
)
WRONG = ("/runs?knd=train", "/runs?start=x", "/runs/none", "/trajectories/none/tokens", "/runs/r/updates/9")


@pytest.fixture(scope="module")
def schema(client: TestClient) -> Any:
    return client.get("/api/openapi.json").json()


def schema_of(schema: Any, path: str, status: int) -> Any:
    """Return the schema of a response, found by the form of its path."""
    parts = path.partition("?")[0].strip("/").split("/")
    fitting = [
        template
        for template in schema["paths"]
        if len(of := template.removeprefix("/api/").split("/")) == len(parts)
        and all(one.startswith("{") or one == part for one, part in zip(of, parts, strict=True))
    ]
    found = schema["paths"][min(fitting, key=lambda one: one.count("{"))]["get"]["responses"][str(status)]
    return found["content"]["application/json"]["schema"]


@pytest.mark.parametrize("path", [*RECORDS, *WRONG])
def test_a_response_is_as_the_schema_states(client: TestClient, schema: Any, path: str) -> None:
    answer = client.get(f"/api{path}")
    assert (answer.status_code == 200) == (path in RECORDS)
    of_response = schema_of(schema, path, answer.status_code) | {"components": schema["components"]}
    Draft202012Validator(of_response).validate(answer.json())


def test_the_schema_describes_every_page_and_field(schema: Any) -> None:
    assert len(schema["paths"]) == 16
    assert all(one["get"]["summary"] for one in schema["paths"].values())
    run = schema["components"]["schemas"]["RunNow"]["properties"]
    assert run["tokens"] == {"type": "integer", "description": "Trained tokens."}
    parameters = {one["name"]: one for one in schema["paths"]["/api/runs/{run}/updates/{update}"]["get"]["parameters"]}
    assert parameters["run"]["schema"] == {"type": "string"}
    assert parameters["update"]["schema"] == parameters["start"]["schema"]
    assert parameters["start"]["schema"]["anyOf"][1] == {"type": "string", "maxLength": 0}  # an empty field of a form
    kinds = {one["name"]: one["schema"] for one in schema["paths"]["/api/runs"]["get"]["parameters"]}
    assert kinds["kind"] == {"type": "string", "enum": [*runs.KINDS, ""]}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/runs?stat=1", "the page has no parameter `stat` (did you mean 'start'?)"),
        ("/runs/r/failures?page=2", "the page has no parameter `page` (known: none)"),
        ("/runs/r?smoth=0.5", "the page has no parameter `smoth` (did you mean 'smooth'?)"),
        ("/trajectories?start=1", "the page has no parameter `start`"),
        ("/trajectories?versions=3", "`versions`: '3' is not a span of whole numbers"),
    ],
)
def test_a_parameter_that_a_page_lacks_is_refused(client: TestClient, path: str, message: str) -> None:
    answer = client.get(f"/api{path}")
    assert answer.status_code == 400
    assert message in answer.json()["error"]
