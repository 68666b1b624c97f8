"""Study files: what they mean, and one sentence with key and line for each mistake."""

from itertools import pairwise

import pytest

from tests.sweeps.making import TINY
from wideproof.errors import InputError
from wideproof.sweeps import bundled, read_study
from wideproof.sweeps.task import Work, tasks_of


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "study.toml"
        path.write_text(text)
        return path

    return write


def test_a_grid(written):
    study = read_study(written(TINY))
    assert study.count == 6
    assert list(study.combinations())[:2] == [{"width": 4, "seed": 0}, {"width": 4, "seed": 1}]
    settings = study.settings({"width": 8, "seed": 2})
    assert settings["network"] == {"name": "fully-connected", "depth": 1, "width": 8}
    assert settings["training"]["seed"] == 2
    assert settings["data"]["n"] == 4


def test_a_list(written):
    text = TINY.split("[axes]")[0]
    study = read_study(written(text + "[[tasks]]\nwidth = 4\nseed = 1\n[[tasks]]\nwidth = 6\nn = 5\n"))
    assert study.count == 2
    first, second = tasks_of(study)
    assert dict(second.chosen) == {"width": 6, "n": 5}
    assert first.digest != second.digest


def test_names_of_tasks_depend_on_what_decides_the_numbers(written):
    one = tasks_of(read_study(written(TINY)))
    assert len({task.digest for task in one}) == 6
    longer = tasks_of(read_study(written(TINY.replace("[4, 8]", "[2, 4, 8]"))))
    assert {task.digest for task in one} < {task.digest for task in longer}
    other = tasks_of(read_study(written(TINY.replace("steps = 20", "steps = 21"))))
    assert not {task.digest for task in one} & {task.digest for task in other}


def test_equal_shapes_come_together(written):
    tasks = tasks_of(read_study(written(TINY.replace("width = [4, 8]\nseed = 3", "seed = 3\nwidth = [4, 8]"))))
    shapes = [task.shape for task in tasks]
    assert len(set(shapes)) == 2
    assert sum(a != b for a, b in pairwise(shapes)) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "tiny"', 'name = "tiny"\ncolour = 3', r"`colour` \(line 3\): there is no such key"),
        ('measures = ["loss", "distance", "reached"]', "", r"`measures`.*missing"),
        ('measures = ["loss"', 'measures = ["los"', r"`measures` \(line 3\): there is no measure 'los'"),
        ("width = [4, 8]", "width = []", r"`axes.width` \(line 20\): an axis has at least one value"),
        ("width = [4, 8]", "width = [4, 4]", r"`axes.width` \(line 20\)"),
        ("width = [4, 8]", "width = 8", r"`axes.width` \(line 20\): .*only seeds can be counted"),
        ("width = [4, 8]", "length = [4, 8]", r"`axes.length` \(line 20\): .*neither fully-connected nor the training"),
        ("steps = 20", "stepps = 20", r"`training.stepps` \(line 16\)"),
        ('kind = "slope"', 'kind = "pie"', r"`figures.0.kind` \(line 24\)"),
        ('x = "width"', 'x = "depth"', r"`figures` .*'depth', which is not an axis"),
        ('kind = "slope"', 'kind = "phase"', r"`figures` .*two axes"),
        ('name = "fully-connected"', 'name = "mlp"', "there is no network 'mlp'"),
        ("[axes]\nwidth = [4, 8]\nseed = 3\n", "", "either .axes. or a list"),
        ('name = "tiny"', 'name = "ti ny"', r"`name` \(line 2\)"),
        ('name = "tiny"', 'name = "tiny', "is not TOML"),
    ],
)
def test_mistakes(written, old, new, said):
    assert old in TINY
    with pytest.raises(InputError, match=said):
        read_study(written(TINY.replace(old, new)))


def test_no_file():
    with pytest.raises(InputError, match=r"no study file 'nothing.toml'; bundled studies are .*lazy-width"):
        read_study("nothing.toml")


@pytest.mark.parametrize("name", bundled())
def test_bundled_studies_can_be_built(name):
    study = read_study(name)
    assert study.title
    assert study.figures
    for chosen in study.combinations():
        settings = study.settings(chosen)
        Work(settings)


def test_a_study_of_statements_has_no_axis_but_the_seed(written):
    """A statement has a laboratory of its own: a width would change nothing, and nobody would see it."""
    only = TINY.replace('["loss", "distance", "reached"]', '["check:zou2018.lemma_c_1"]').partition("[[figures]]")[0]
    with pytest.raises(InputError, match=r"axes.width.*sets the seed only.*wideproof check --widths"):
        read_study(written(only))
    seeds = only.replace("width = [4, 8]\n", "").replace("depth = 1", "depth = 1\nwidth = 4")
    assert read_study(written(seeds)).count == 3
    both = only.replace('["check:', '["loss", "check:')
    assert read_study(written(both)).count == 6
