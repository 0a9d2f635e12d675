"""The U-curve of DDP's bucket size, to play with: a slider over the runs recorded in buckets.csv.

The widget needs a kernel only to appear; a saved notebook keeps the picture and its text.
"""

from __future__ import annotations

import io
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from autograder.experiments.buckets import LAYERS, RANKS, WIDTH, Step, recorded

DEFAULT_MB = 25
"""torch's default for ``bucket_cap_mb``; here the slider begins."""


class BucketCurve:
    """Virtual time of a step by bucket size, on 8 A100s; the value of a notebook cell is the slider."""

    @property
    def what(self) -> str:
        """Which runs these are, in a sentence."""
        megabytes = LAYERS * (WIDTH * WIDTH + WIDTH) * 4 / 1e6
        return (
            f"torch DDP on {RANKS} A100s, {LAYERS} linear layers of {WIDTH} x {WIDTH}, {megabytes:.0f} MB of "
            f"gradients; {len(recorded())} recorded runs, virtual time"
        )

    def best(self) -> Step:
        """The recorded third step that took the least time."""
        return min((steps[-1] for steps in recorded().values()), key=lambda step: step.step_ns)

    def text(self) -> str:
        """The table of the curve: step time, number of buckets, and what stayed exposed after backward."""
        lines = [self.what, "", "bucket   buckets   step      after backward"]
        for size, steps in recorded().items():
            last = steps[-1]
            exposed = last.buckets[-1].end_ns - last.backward_ns
            times = f"{last.step_ns / 1e6:.2f} ms   {exposed / 1e6:.2f} ms of transfer"
            lines.append(f"{size:4g} MB   {len(last.buckets):7}   {times}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text()

    @property
    def alt(self) -> str:
        """One sentence for readers who do not see the curve."""
        best, (first, *_, last) = self.best(), list(recorded().values())
        return (
            f"Step time by bucket size: {first[-1].step_ns / 1e6:.2f} ms with {first[-1].bucket_mb:g} MB, least with "
            f"{best.bucket_mb:g} MB ({best.step_ns / 1e6:.2f} ms), {last[-1].step_ns / 1e6:.2f} ms with one bucket."
        )

    def png(self) -> bytes:
        """The curve as a static picture."""
        from matplotlib.figure import Figure

        from simulator.show import canvas

        with canvas.settings():
            axes = (figure := Figure(figsize=(7, 3), layout="constrained")).add_subplot()
            axes.plot([*recorded()], [steps[-1].step_ns / 1e6 for steps in recorded().values()], "o-", color="#0072b2")
            axes.set_xscale("log")
            axes.set_xticks([1, 2.5, 5, 10, 25, 50, 100, 150], ["1", "2.5", "5", "10", "25", "50", "100", "150"])
            axes.minorticks_off()
            axes.set(xlabel="bucket size (MB)", ylabel="step (virtual ms)", ylim=(0, None))
            figure.savefig(buffer := io.BytesIO(), format="png", dpi=110, metadata={"Software": None})
        return buffer.getvalue()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        picture = {"image/png": self.png(), "text/plain": self.text()}, {"image/png": {"alt": self.alt, "width": 700}}
        try:
            from simulator.show.widget.notebook import widget, with_picture
        except ModuleNotFoundError:
            display(picture[0], metadata=picture[1], raw=True)
        else:
            with_picture(widget(_file("curve.js"), _file("curve.css"), **self._told()), picture)

    def _told(self) -> dict[str, Any]:
        steps = {size: [msgspec.to_builtins(step) for step in of_size] for size, of_size in recorded().items()}
        told = {"what": self.what, "sizes": [*steps], "steps": [*steps.values()], "text": self.text(), "alt": self.alt}
        return {"data": msgspec.json.encode(told), "at": [*steps].index(DEFAULT_MB)}


@cache
def _file(name: str) -> str:
    return files("autograder.experiments").joinpath(name).read_text(encoding="utf-8")
