"""Renders templates with Jinja2 itself: a line of JSON in, a line of JSON out."""

import json
import re
import sys
import unicodedata

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def truncate(value, n=100):
    text = str(value)
    return text if len(text) <= n else text[: max(n - 3, 0)] + "..."


def regex_search(value, pattern):
    found = re.search(pattern, str(value), re.IGNORECASE)
    return (found.group(1) or "") if found and found.re.groups else ""


environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
environment.filters["truncate"] = truncate
environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
environment.filters["regex_search"] = regex_search
environment.filters["title"] = lambda value: str(value).title()

for line in sys.stdin:
    case = json.loads(line)
    try:
        text = environment.from_string(case["source"]).render(case["context"])
        text = unicodedata.normalize("NFC", CONTROL.sub("", text))
        print(json.dumps({"text": text}))
    except Exception as error:  # any refusal counts as one
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
    sys.stdout.flush()
