"""``python -m labeldp``."""

from __future__ import annotations

import sys

from labeldp.cli import main

sys.exit(main())
