"""The built wheel, alone in an empty virtual environment: `ottla up` runs, the pytest fixture serves a foreign project."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVING_DEPENDENCIES_MAX = 20  # Ours and theirs together; a broker is not a framework.

FOREIGN_TEST = """
import ottla

def test_a_foreign_project_gets_a_broker(ottla_broker, ottla_topic):
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        assert producer.send(ottla_topic, key="k", value="v").get(20).offset == 0
    ottla_broker.kill()
    ottla_broker.restart()
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        assert producer.send(ottla_topic, key="k", value="w").get(20).offset == 1
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "PYTHONPATH"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds the wheel, what it needs, and pytest."""
    place = tmp_path_factory.mktemp("package")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", place / "dist", ROOT)
    (wheel,) = (place / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", place / "venv")
    run(place / "venv" / "bin" / "pip", "install", "--quiet", wheel)
    return place / "venv" / "bin"


def test_the_wheel_needs_little(environment: Path) -> None:
    installed = run(environment / "pip", "list", "--format=freeze").split()
    names = {line.split("==")[0].lower() for line in installed} - {"pip", "setuptools", "ottla"}
    assert len(names) <= SERVING_DEPENDENCIES_MAX, sorted(names)


def test_ottla_up_says_where_it_listens_and_stops_on_sigterm(environment: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [str(environment / "ottla"), "up", "--port", "0", "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "bootstrap.servers=localhost:" in line
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_fixture_works_in_a_project_that_is_not_ours(environment: Path, tmp_path: Path) -> None:
    run(environment / "pip", "install", "--quiet", "pytest")
    (tmp_path / "test_theirs.py").write_text(FOREIGN_TEST)
    assert "1 passed" in run(environment / "python", "-m", "pytest", "-q", tmp_path, cwd=tmp_path)


def test_a_killed_test_leaves_neither_broker_nor_files(environment: Path, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal, ottla.testing\n"
        "with ottla.testing.broker() as b:\n"
        "    print(b.pid, b.data_dir, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [str(environment / "python"), str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -9
    pid, data_dir = done.stdout.split()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and (Path(f"/proc/{pid}").exists() or Path(data_dir).exists()):
        time.sleep(0.05)
    assert not Path(data_dir).exists()
    assert not Path(f"/proc/{pid}").exists()
