"""Whether a Python step's function is in its module, read from the source: importing it would run it, and Spark with it.

Where the source is not at hand, or may define more than it shows (`from x import *`, `__getattr__`), nothing is wrong.
"""

import ast
import symtable
from importlib.util import find_spec
from pathlib import Path


def wrong_with(module: str, function: str) -> str | None:
    """Why `module:function` is no step; None where nothing is known against it."""
    package, *names = module.split(".")
    spec = find_spec(package)
    if spec is None:
        return f"there is no module {module} beside this file or on Python's path"
    if names:
        files = [Path(location, *names) for location in spec.submodule_search_locations or ()]
        sources = [source for file in files for source in (file.with_suffix(".py"), file / "__init__.py")]
    else:
        sources = [Path(spec.origin or "")]
    found = [source for source in sources if source.suffix == ".py" and source.is_file()]
    return _wrong_in(found[0], function) if found else None


def _wrong_in(source: Path, function: str) -> str | None:
    try:
        text = source.read_text(encoding="utf-8")
        has_more = any(
            isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(ast.parse(text))
        )
        table = symtable.symtable(text, str(source), "exec")
    except (SyntaxError, ValueError) as error:
        return f"{source.name} is no Python: {error}"
    defined = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    if has_more or "__getattr__" in defined or function in defined:
        return None
    return f"{source.name} has no function {function}"
