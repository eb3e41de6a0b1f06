from ._audit import Audit as Audit
