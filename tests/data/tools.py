"""Tables written to files, and what their encodings say."""


def written(tmp_path, content, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def inputs(data):
    assert data.encoding is not None
    return data.encoding.inputs


def notes(data):
    assert data.encoding is not None
    return data.encoding.notes
