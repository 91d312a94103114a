"""Re-ranking of Qdrant's candidates by the surprise score and by DynaMax."""

from pathlib import Path as _Path

# Python started in a checkout finds this folder before the installed package, and then `connectors` and
# `eval` lie beside it instead of in it.
_FOLDER = _Path(__file__).parent
if not (_FOLDER / "connectors").is_dir() and (_FOLDER.parent / "connectors" / "qdrant").is_dir():
    __path__.append(str(_FOLDER.parent))
