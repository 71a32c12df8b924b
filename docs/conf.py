"""The site: `make site` builds it with Sphinx into `target/site`."""

import paddle_sot_rs

project = "paddle-sot-rs"
release = version = paddle_sot_rs.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"paddle-sot-rs {release}"
# Links to headings, as on the pages of a repository.
myst_heading_anchors = 4
exclude_patterns = ["conf.py"]
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
# Docstrings mark code as Markdown does.
default_role = "code"
# Paddle's own pages are not looked up.
nitpicky = False
