"""Words that cross a boundary: headers, problems, files, bodies. Pydantic lives here."""
