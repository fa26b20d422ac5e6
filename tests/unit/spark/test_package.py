"""`pyspark_ottla` beside another Python source, where neither Arrow nor Ottla's own libraries are installed.

Spark imports every `pyspark_*` package when it looks for sources; one that cannot be imported takes all others away.
"""

import subprocess
import sys
from pathlib import Path

import py4j
import pyspark

import ottla
import pyspark_ottla

OTHER_SOURCE = """
from pyspark.sql.datasource import DataSource

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "other"
"""
# What Spark runs to find the sources there are; it writes their names, each with its length before it.
LOOK_UP = """
import io, sys
sys.path.append(sys.argv[1])
from pyspark.sql.worker import lookup_data_sources
found = io.BytesIO()
lookup_data_sources._main(io.BytesIO(), found)
print(sorted(name for name in ("ottla", "other") if name.encode() in found.getvalue()))
print(sorted(name for name in sys.modules if name.split(".")[0] in ("ottla", "pyarrow", "numpy")))
"""


def test_it_is_found_and_leaves_others_their_place(tmp_path: Path) -> None:
    for package in (pyspark, py4j, ottla, pyspark_ottla):
        directory = Path(str(package.__file__)).parent
        (tmp_path / directory.name).symlink_to(directory)
    (tmp_path / "pyspark_other.py").write_text(OTHER_SOURCE)
    command = [sys.executable, "-I", "-S", "-c", LOOK_UP, str(tmp_path)]
    looked_up = subprocess.run(command, capture_output=True, text=True, check=False)
    assert looked_up.returncode == 0, looked_up.stderr
    assert looked_up.stdout.splitlines() == ["['other', 'ottla']", "[]"]
