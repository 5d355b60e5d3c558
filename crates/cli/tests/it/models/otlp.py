"""Parses the requests to a collector with the definitions that OpenTelemetry publishes.

OTLP's JSON has hexadecimal ids where Protobuf's own JSON has base64; everything else is the same. A
field that the definitions do not have is an error. Prints the names of the spans.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2


def spans(request):
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


for line in open(sys.argv[1]):
    request = json.loads(line)
    for span in spans(request):
        for key, size in (("traceId", 16), ("spanId", 8), ("parentSpanId", 8)):
            if key in span:
                raw = bytes.fromhex(span[key])
                assert len(raw) == size and any(raw), (key, span[key])
                span[key] = base64.b64encode(raw).decode()
    parsed = json_format.ParseDict(request, trace_service_pb2.ExportTraceServiceRequest())
    for resource in parsed.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                assert span.start_time_unix_nano <= span.end_time_unix_nano
                print(span.name)
