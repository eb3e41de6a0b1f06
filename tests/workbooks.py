"""Workbooks of Excel, written without a library for them: typed cells, dates as numbers of days with a format."""

import datetime as dt
import zipfile

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGED = "http://schemas.openxmlformats.org/package/2006/relationships"
STYLES = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'


def cell(value):
    """A value as Excel stores it: dates are numbers of days with a format."""
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, dt.date):
        return f'<c s="1"><v>{(value - dt.date(1899, 12, 30)).days}</v></c>'
    return f"<c><v>{value}</v></c>" if not isinstance(value, str) else f'<c t="inlineStr"><is><t>{value}</t></is></c>'


def write_excel(path, sheets):
    """A workbook of some sheets, each a list of rows."""
    listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1))
    targets = "".join(
        f'<Relationship Id="r{i}" Type="{RELATED}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    targets += f'<Relationship Id="rs" Type="{RELATED}/styles" Target="styles.xml"/>'
    root = f'<Relationship Id="r" Type="{RELATED}/officeDocument" Target="xl/workbook.xml"/>'
    parts = {
        "../_rels/.rels": f'<Relationships xmlns="{PACKAGED}">{root}</Relationships>',
        "../[Content_Types].xml": f'<Types xmlns="{PACKAGED.replace("relationships", "content-types")}"/>',
        "workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATED}"><sheets>{listed}</sheets></workbook>',
        "_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGED}">{targets}</Relationships>',
        "styles.xml": f'<styleSheet xmlns="{SHEET}">{STYLES}</styleSheet>',
    }
    for i, rows in enumerate(sheets.values(), 1):
        body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        parts[f"worksheets/sheet{i}.xml"] = f'<worksheet xmlns="{SHEET}"><sheetData>{body}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name[3:] if name.startswith("../") else f"xl/{name}", text)
