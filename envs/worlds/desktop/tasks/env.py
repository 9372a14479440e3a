"""``turnwise/Desktop-v0``: tasks on a text editor, files, a spreadsheet, a calculator, a terminal and an image viewer.

Each episode starts with its own home folder and open windows, drawn from the seed. The verdict compares the end state
with the expected one: files, folders, settings and, where the task is about them, windows, the calculator's display and
the answer. ``by`` selects what the test split holds out: instances, templates, or an application.
"""

from ....splits import TemplateChoice
from ...computer.env import ObservationMode
from ..env import DesktopEnv
from ..task import DesktopTask, EndState
from . import DESKTOP_SPLITS, HELD_OUT_APPLICATION, VISUAL, draw
from .expected import Expected


class DesktopTasksEnv(DesktopEnv):
    """Complete a task in the applications of a real desktop.

    ``template``, such as ``editor/replace-word``, selects one, with the seed unchanged.
    With ``observation = "text"``, tasks that need a screenshot are left out.

    Raises:
        ValueError: an option is unknown, or the template needs a screenshot.
    """

    def __init__(
        self,
        by: str = "instance",
        held_out_application: str = HELD_OUT_APPLICATION,
        template: str | None = None,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(observation, marks, max_pixels, coordinates)
        left_out = VISUAL if observation == "text" else frozenset[str]()
        self.choice = TemplateChoice(DESKTOP_SPLITS, by, held_out_application, template, left_out)
        if template in left_out:
            raise ValueError(f'`{template}` needs a screenshot; set `observation` to "screenshot" or "both"')

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the instance of a seed."""
        drawn = self.choice.instance(seed, split)
        return draw(drawn.template, drawn.seed)

    def check(self, end: EndState) -> bool:
        """Return whether the end state is the expected one."""
        expected: Expected = end.task.data
        return expected.met(end)
