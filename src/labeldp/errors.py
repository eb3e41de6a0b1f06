"""The errors of labeldp, in one place.

Every error is a ``LabelDPError`` and also the matching built-in exception. Its message says what was expected, what
was found and what to do, and never shows a label::

    LabelDPError
    ├── InputError (ValueError)        unusable input
    │   ├── EpsilonError               an epsilon, delta or budget that cannot be met
    │   ├── LabelError                 a label space, or a label outside the declared one
    │   ├── PriorError                 a prior of the wrong shape, or not a distribution
    │   ├── RowsError (IndexError)     rows that do not exist, or appear twice
    │   └── TableError                 a table, file or folder that cannot be read as one
    ├── BudgetError (PermissionError)  the account does not allow this request
    ├── LedgerError (RuntimeError)     the ledger is damaged, or belongs to something else
    ├── OutputError (FileExistsError)  the output cannot be written to the requested place
    │   └── AttemptError               two attempts at one file of a release differ
    ├── EngineError (RuntimeError)     workers that are not there, died, or cannot do the work
    ├── NotTrueLabelsError (TypeError) released labels used as if they were true labels
    ├── MissingExtraError (ImportError) an optional library is not installed
    └── VerificationError (ValueError) a release and its certificate do not agree
"""

from __future__ import annotations


class LabelDPError(Exception):
    """Any error that labeldp raises on purpose."""


class InputError(LabelDPError, ValueError):
    """Input that cannot be used."""


class EpsilonError(InputError):
    """An epsilon, delta or budget that cannot be met."""


class LabelError(InputError):
    """A label space that cannot be declared, or a label outside the declared one."""


class PriorError(InputError):
    """A prior of the wrong shape, or one that is not a distribution."""


class RowsError(InputError, IndexError):
    """Rows that do not exist, or appear twice."""


class TableError(InputError):
    """A table, file or folder that cannot be read as a table."""


class BudgetError(LabelDPError, PermissionError):
    """The account does not allow this request."""


class LedgerError(LabelDPError, RuntimeError):
    """The ledger is damaged, in use, or belongs to something else."""


class OutputError(LabelDPError, FileExistsError):
    """The output cannot be written to the requested place."""


class AttemptError(OutputError):
    """Two attempts at one file of a release that differ: its rows may have been drawn twice."""


class EngineError(LabelDPError, RuntimeError):
    """Workers that are not there, died, or cannot do the work."""


class NotTrueLabelsError(LabelDPError, TypeError):
    """Released labels were about to be used as if they were true labels."""


class MissingExtraError(LabelDPError, ImportError):
    """An optional library is needed and not installed."""


class VerificationError(LabelDPError, ValueError):
    """A release and its certificate do not agree."""
