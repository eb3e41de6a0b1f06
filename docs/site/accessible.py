"""What the theme leaves out for people who hear pages or use no mouse: levels, names of regions, and focus."""

import re
from pathlib import Path

#: What stands in built pages, and what takes its place.
MENDED = {
    r'<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    r'<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    r'<aside class="toc-drawer( no-toc)?">': r'<aside class="toc-drawer\1" aria-label="This page">',
    r'(<div class="content-icon-container")>': r'\1 role="navigation" aria-label="Source of this page">',
    r"<pre>": '<pre tabindex="0">',  # it may scroll
    r'(?<!</h1>)<div id="search-results">': '<h1>Search</h1><div id="search-results">',
    r'<table class="docutils': '<table tabindex="0" class="docutils',  # likewise
}


def mended(text):
    """A page with what the theme leaves out; of a page that has it, the same page."""
    for found, written in MENDED.items():
        text = re.sub(found, written, text)
    return text


def mend_pages(app, problem):
    """Mend all pages of the site."""
    if problem is not None or app.builder.name != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text("utf-8")
        if (better := mended(text)) != text:
            path.write_text(better, "utf-8")


def setup(app):
    """Mend pages when all are written."""
    app.connect("build-finished", mend_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
