"""Options and fixtures that the Python tests share."""

import shutil

import camshaft_cli
import pytest
from catalog import EVERY


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also run the tests marked large")


def pytest_collection_modifyitems(config, items):
    """Leaves out the large tests, as if they were not there, unless --all asks for them."""
    if config.getoption("--all"):
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("large")])
    items[:] = [item for item in items if not item.get_closest_marker("large")]


class Engines:
    """Builds each model's engine once a session. Of those above 100 MB only the latest stays on disk."""

    def __init__(self, folder):
        self.folder = folder

    def get(self, name, *options):
        path = self.folder / f"{name}{''.join(options)}.engine"
        if not path.exists():
            for other in self.folder.iterdir():
                if other.stat().st_size > 100_000_000:
                    other.unlink()
            camshaft_cli.camshaft("build", EVERY[name].path(), "-o", path, *options)
        return path


@pytest.fixture(scope="session")
def engines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    yield Engines(folder)
    shutil.rmtree(folder)


@pytest.fixture
def engine(engines):
    """A small engine (the text direction classifier) for tests of the command line. Do not write to it."""
    return engines.get("ppocr_cls")
