"""The page on adoption: what it tells people to write is there to be written."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "adoption.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_each_example_parses_and_its_imports_are_there(block: str):
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            assert all(hasattr(module, each.name) for each in node.names)
