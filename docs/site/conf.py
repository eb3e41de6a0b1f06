"""The site: Sphinx reads the pages where they are, so the root of the repository is its source folder."""

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]

from labeldp._version import __version__  # noqa: E402 (from src)

project, author, release = "labeldp", "the contributors of labeldp", __version__
copyright = "the contributors of labeldp, Apache-2.0"  # noqa: A001 (Sphinx reads this name)
root_doc = "docs/index"
include_patterns = [
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**.md", "changelog.d/README.md"),
    *("experiments/*.md", "experiments/results/*.md", "benchmarks/README.md", "js/README.md"),
]
exclude_patterns = [".*", "build", "dist", "demo", "src", "tests", "**/__pycache__"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_copybutton",
    "generated",
    "executed",
    "accessible",
]
nitpicky = True
#: Types in signatures are names of other libraries, of formulas and of private modules, which have no page here.
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = ["ref.python"]  # types that napoleon reads off the first words of a property

myst_enable_extensions = ["colon_fence", "deflist"]
smartquotes = False  # two hyphens begin an option
myst_heading_anchors = 4
napoleon_custom_sections = [("Guarantee", "notes_style")]
napoleon_use_ivar = True
autodoc_typehints = "none"  # signatures have them
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_score_request, set_partial_fit_request, set_predict_request"
}
copybutton_prompt_text, copybutton_prompt_is_regexp = r"\$ |>>> |\.\.\. ", True
copybutton_only_copy_prompt_lines = True

html_theme, html_title = "furo", f"labeldp {__version__}"
html_static_path, html_css_files = ["static"], ["site.css"]
html_copy_source, html_show_sphinx, html_show_copyright = True, False, False
templates_path = ["templates"]
if os.environ.get("LABELDP_SITES"):  # beside other versions, which the page above lists
    html_sidebars = {
        "**": [
            *(
                f"sidebar/{part}.html"
                for part in ("brand", "versions", "search", "scroll-start", "navigation", "scroll-end")
            )
        ]
    }
linkcheck_ignore = [r"https?://[^/]*\.example\b"]  # invented addresses
