"""Build the playground that runs in a browser alone: `python playground/build.py [FOLDER]`, by default out/playground.

The folder can be served by any file server, or opened inside the site. Nothing that is built is kept in the repository:

- isl and imath are compiled from islpy's source distribution to a WebAssembly module of their own, `isl.wasm`, by any
  Emscripten (Debian's will do): it shares no conventions with the rest;
- Python is Pyodide, from npm;
- tensorlang is the working tree's, click comes from PyPI; islpy and NumPy have stand-ins, in `playground/browser`.

Needs `emcc`, `npm` and `node` on the path, and `pip`. What is downloaded or compiled stays in out/playground-build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
WORK = ROOT / "out" / "playground-build"

PYODIDE, ISLPY, CLICK = "314.0.7", "2026.2.2", "8.5.1"
TOOLS = ("emcc", "npm", "node")
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
"""What of Pyodide the page loads."""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; worker-src 'self'; frame-src 'self'"
)
"""What the page may do: nothing of another host."""
OWN = ("engine.mjs", "worker.mjs")

_IMATH = ("isl_imath", "imath/imath", "imath/imrat", "imath/gmp_compat", "isl_int_sioimath", "isl_val_sioimath")
_COMPILE = (
    *("-O2", "-w", "-D__OPTIMIZE_SIZE__", "-DUSE_IMATH_FOR_MP=1", "-DUSE_SMALL_INT_OPT=1", '-DGIT_HEAD_ID="islpy"'),
    *("-Iisl-supplementary", "-Iisl/include", "-Iisl", "-Iisl/imath"),
)
_LINK = (
    *("-O2", "--no-entry", "-sSTANDALONE_WASM=1", "-sFILESYSTEM=0"),
    *("-sALLOW_MEMORY_GROWTH=1", "-sTOTAL_STACK=4MB", "-sINITIAL_MEMORY=16MB"),
)


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, silently; if it fails, end with what it said."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def downloaded(package: str, version: str, *how: str) -> Path:
    """The file of this version of a package of PyPI."""
    folder = WORK / "pypi"
    if not list(folder.glob(f"{package}-{version}*")):
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", *how, "-d", folder, f"{package}=={version}")
    return next(folder.glob(f"{package}-{version}*"))


def pyodide() -> Path:
    """The folder of Pyodide's npm package."""
    folder = WORK / f"pyodide-{PYODIDE}"
    if not (folder / "node_modules").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", f"pyodide@{PYODIDE}", cwd=folder)
    return folder / "node_modules" / "pyodide"


def isl() -> Path:
    """isl as a WebAssembly module, compiled anew where its sources, `isl.c` or this file differ."""
    archive = downloaded("islpy", ISLPY, "--no-binary", "islpy")
    key = sha256(b"".join(f.read_bytes() for f in (archive, HERE / "isl.c", Path(__file__)))).hexdigest()[:16]
    module = WORK / f"isl-{key}.wasm"
    if module.exists():
        return module
    source = WORK / f"islpy-{ISLPY}"
    if not source.exists():
        with tarfile.open(archive) as files:
            files.extractall(WORK, filter="data")
    listed = re.search(r"set\(ISL_SOURCES(.*?)\)", (source / "CMakeLists.txt").read_text(), re.DOTALL)
    assert listed is not None
    names = sorted(set(re.findall(r"isl/\w+\.c", listed[1])) | {f"isl/{name}.c" for name in _IMATH})
    objects = source / "objects"
    objects.mkdir(exist_ok=True)

    def compiled(name: str | Path) -> Path:
        target = objects / (Path(name).stem + ".o")
        run("emcc", *_COMPILE, "-c", name, "-o", target, cwd=source)
        return target

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(compiled, [*names, HERE / "isl.c"]))
    run("emcc", *_LINK, *parts, "-o", module)
    return module


def packages(target: Path) -> None:
    """Write the Python sources that the page unpacks: tensorlang, the stand-ins, and click."""
    folders = [(ROOT / "tensorlang", Path("tensorlang")), (HERE / "browser", Path())]
    files = {
        str(name / file.relative_to(folder)): file.read_bytes()
        for folder, name in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(downloaded("click", CLICK)) as wheel:
        files |= {name: wheel.read(name) for name in wheel.namelist() if name.startswith("click/")}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, content in files.items():
            out.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def build(folder: Path) -> None:
    """Write everything that the page needs into `folder`."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        sys.exit(f"not on the path: {', '.join(missing)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        shutil.copyfile(pyodide() / name, folder / name)
    lock = json.loads((pyodide() / "pyodide-lock.json").read_text())
    (folder / "pyodide-lock.json").write_text(json.dumps(lock | {"packages": {}}))  # of which none is loaded
    shutil.copyfile(isl(), folder / "isl.wasm")
    own(folder)
    print(f"{folder}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e6:.1f} MB")


def own(folder: Path) -> None:
    """Write the page, its scripts and the package as they are now."""
    packages(folder / "packages.zip")
    for name in OWN:
        shutil.copyfile(HERE / name, folder / name)
    page = (ROOT / "tensorlang" / "play" / "page.html").read_text()
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page = page.replace('<html lang="en">', '<html lang="en" data-engine="worker">', 1)
    (folder / "index.html").write_text(page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}', 1))
    files = [f for f in sorted(folder.iterdir()) if f.is_file() and f.name != "offline.mjs"]
    version = sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]
    (folder / "offline.mjs").write_text((HERE / "offline.mjs").read_text().replace("BUILD", version))


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "playground")
