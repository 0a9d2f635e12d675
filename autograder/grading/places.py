"""Where a job process runs the ranks of its checks: beside itself, or in a room of the sandbox for each submission."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from autograder.errors import LabError
from autograder.results import CheckResult
from autograder.sandbox import processes

if TYPE_CHECKING:
    from autograder.sandbox.building import Building, Room
    from autograder.sandbox.limits import Isolation
    from simulator.launch import World


class BrokeOffError(LabError):
    """The processes that run a student's code ended, or said what none of ours says. `used_up`: they took too much."""

    def __init__(self, text: str, used_up: bool) -> None:
        super().__init__(text)
        self.used_up = used_up


class Beside:
    """Ranks of this user, warm between checks: for a student's own code on the student's own machine."""

    def warm_up(self) -> None:
        """Return when ranks can start."""
        from simulator import launch

        launch.world().wait_ready()

    def run(self, room: str, check: Callable[[], CheckResult]) -> CheckResult:
        """Run a check, whatever `room` is."""
        return check()

    def tidy(self) -> None:
        """End what a check left behind."""
        launch = sys.modules.get("simulator.launch")
        processes.kill_strays(keep=launch.world_pids() if launch else ())


class Rooms:
    """A building of the sandbox; a check whose `room` is another one than before runs in a new room."""

    def __init__(self, isolation: Isolation) -> None:
        from autograder.sandbox.building import Building

        self._building: Building = Building(isolation)
        self._room: Room | None = None
        self._name = ""
        self._world: World | None = None

    def warm_up(self) -> None:
        """Return when rooms can be opened."""
        self._building.wait_ready()

    def run(self, room: str, check: Callable[[], CheckResult]) -> CheckResult:
        """Run a check in its room.

        Raises:
            BrokeOffError: the room ended, or its forkserver or the coordinator lost the thread.
        """
        from simulator import launch
        from simulator.errors import SimulatorError

        world = self._enter(room)
        try:
            with launch.within(world):
                return check()
        except Exception as error:
            why = self._room.why_ended if self._room else ""
            self._give_up()
            if type(error) is SimulatorError:
                raise BrokeOffError(why or str(error), used_up=bool(why)) from error
            raise

    def tidy(self) -> None:
        """Nothing: what a check leaves in its room ends with the room."""

    def _enter(self, name: str) -> World:
        from simulator import launch

        if self._world is not None and self._room is not None and name == self._name:
            return self._world
        self._leave_room()
        self._room, self._name = self._building.open(), name
        if self._world is None or not self._world.coordinator.is_alive:
            self._world = launch.World(ranks=self._room)
            self._world.limit_bytes = self._building.limits.rank_bytes
            self._world.cwd, self._world.environ = self._room.place
        else:
            self._world.move_to(self._room)
        return self._world

    def _leave_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.close()

    def _give_up(self) -> None:
        """The coordinator may be in the middle of a run that will not end: both go."""
        self._leave_room()
        world, self._world = self._world, None
        if world is not None:
            world.coordinator.close()
