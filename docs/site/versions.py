"""Sites of several versions side by side: one folder each, and a page that lists them.

python docs/site/versions.py BUILT FOLDER VERSION     put a built site into a folder of versions
"""

import re
import shutil
import sys
from html import escape
from pathlib import Path

_VERSION = re.compile(r"\d+(\.\d+)+")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>labeldp: versions of the documentation</title>
</head>
<body>
<h1>labeldp</h1>
<p><a href="{newest}/docs/index.html">The newest version, {newest}</a>. All versions:</p>
<ul>
{all}
</ul>
</body>
</html>
"""


def versions(folder):
    """The versions in a folder, the newest first."""
    found = [path.name for path in folder.iterdir() if path.is_dir() and _VERSION.fullmatch(path.name)]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def add(built, folder, version):
    """Put a built site into a folder of versions, in the place of one of the same version, and list them all."""
    if not _VERSION.fullmatch(version):
        raise SystemExit(f"expected a version such as 0.9.0, found {version}")
    place = folder / version
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(built, place)
    found = [escape(name) for name in versions(folder)]
    listed = "\n".join(f'<li><a href="{name}/docs/index.html">{name}</a></li>' for name in found)
    (folder / "index.html").write_text(_PAGE.format(newest=found[0], all=listed), "utf-8")


if __name__ == "__main__":
    add(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
