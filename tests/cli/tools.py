"""What the tests of the command line share."""

from wideproof.storage import read_tensors

VECTORS = "two_classes:n=12,d=4,separation=0.5,mu=0.5"
SEQUENCES = "sequences:n=6,length=3,features=4,separation=0.3"


def listing(folder):
    """Everything below a folder, with the bytes of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def same_bits(left, right):
    """Check that two run folders hold the same state, but for the time it took."""
    (first, meta), (second, meta_too) = (read_tensors(folder / "state.safetensors") for folder in (left, right))
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype, name
        assert array.shape == second[name].shape, name
        assert array.tobytes() == second[name].tobytes(), name
    drop = {"seconds": None}
    assert meta | drop == meta_too | drop
