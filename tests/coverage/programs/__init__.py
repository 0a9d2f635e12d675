"""Programs that use one part of torch.distributed each, as a user would write them; nothing of the simulator."""

import importlib
import pkgutil


def load_all() -> None:
    """Import every module here, so that its programs are in the catalogue."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
