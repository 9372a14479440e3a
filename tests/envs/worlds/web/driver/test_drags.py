"""A drag ends on its target, or is refused without a click on its source."""

from turnwise.tests.envs.worlds.web.one_page import OnePage

BODY = """<style>[role=button] { width: 60px; height: 20px }</style>
<div id=source draggable=true role=button>source</div><div id=near role=button>near</div>
<div role=button style='position: absolute; left: 300px; top: 200px'>covered</div>
<div style='position: absolute; left: 290px; top: 190px; width: 100px; height: 100px'></div>
<script>
source.ondragstart = event => event.dataTransfer.setData('text', 'x');
source.onclick = () => log('clicked');
near.ondragover = event => event.preventDefault();
near.ondrop = event => { event.preventDefault(); log('dropped') };
</script>"""


def test_a_drag_ends_on_its_target(page: OnePage) -> None:
    page.open(BODY)
    seen, valid = page.try_action("drag_and_drop({a}, {b})", a="button 'source'", b="button 'near'")
    assert ("log: dropped;" in seen, valid) == (True, True), seen


def test_a_drag_onto_a_covered_element_is_refused(page: OnePage) -> None:
    page.open(BODY)
    covered = page.number("button 'covered'")
    seen, valid = page.try_action("drag_and_drop({a}, {b})", a="button 'source'", b="button 'covered'")
    assert f"error: element {covered}: another element covers it" in seen
    assert (valid, "clicked" in seen) == (False, False)
