from ._exact import audit_channel as audit_channel
from ._exact import audit_drawing as audit_drawing
from ._exact import audit_matrix as audit_matrix
from ._folder import FolderAudit as FolderAudit
from ._folder import audit_folder as audit_folder
from ._sampled import audit_mechanism as audit_mechanism
