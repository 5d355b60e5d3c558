# The only task list. `make demo` and `make test` are all that a fresh machine needs.

CARGO ?= cargo
DENY_VERSION := 0.20.2
NEXTEST_VERSION := 0.9.143
MUTANTS_VERSION := 27.1.0
DEBIAN_PACKAGES := strace tmux procps python3-venv tar zstd faketime
# What templates are compared with, what telemetry is read with, a server of S3, and generated requests
# to the server.
PYTHON_PACKAGES := jinja2==3.1.6 opentelemetry-proto==1.45.2 moto[server]==5.2.5 schemathesis==4.32.5
# MCP servers that tools are asked of; agents as people install them, driven offline; the node that the
# two adapters of the Agent Client Protocol ask for, whatever the machine has; and a client of the
# server that is generated from its OpenAPI document.
NPM_PACKAGES := @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
  @anthropic-ai/claude-code@2.1.325 @openai/codex@0.166.0 \
  @agentclientprotocol/claude-agent-acp@0.99.0 @agentclientprotocol/codex-acp@2.6.0 node@22.23.3 \
  openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3
FEATURES := --features segno-cli/failpoints
SEED ?= 1
# How many bits of each byte `make crash` flips; 8 takes hours.
BITS ?= 1
# How long `make fuzz` tries each parser.
MINUTES ?= 10
# What `make mutants` changes.
FILE ?= crates/core/src/journal/chain.rs

.DEFAULT_GOAL := help
.PHONY: help demo check test lint bench crash fuzz mutants tools

help: ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build, and watch a run being killed and coming back (offline)
	@$(CARGO) build --quiet --profile demo -p segno-cli
	@./target/demo/segno demo

check: ## Run the fast tests: no program but ours, no tools to install (every save)
	@$(CARGO) nextest run --profile fast --workspace $(FEATURES)

test: tools lint ## Install what the tests need, run every suite, end with a line of counts
	@rm -f target/tmp/redaction.txt
	@$(CARGO) nextest run --workspace $(FEATURES) --no-fail-fast > target/nextest.log 2>&1; \
	status=$$?; grep -v ' PASS ' target/nextest.log; \
	count() { sed -n "s/.*Summary .*[ ,]\([0-9][0-9]*\) $$1.*/\1/p" target/nextest.log | tail -n 1; }; \
	passed=$$(count passed); failed=$$(count failed); late=$$(count 'timed out'); \
	failed=$$(( $${failed:-0} + $${late:-0} )); \
	test $$status -eq 0 -o $$failed -gt 0 || failed=1; \
	flaky=$$(sed -n 's/^ *FLAKY [0-9/]* *\[[^]]*\] *\(([^)]*) *\)*//p' target/nextest.log | sort -u); \
	test -z "$$flaky" || printf 'flaky (passed in a retry):\n%s\n' "$$flaky"; \
	test ! -e target/tmp/redaction.txt || cat target/tmp/redaction.txt; \
	echo "tests: $${passed:-0} passed, $$failed failed"; \
	exit $$status

lint: tools ## Format, clippy, links between docs, dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets $(FEATURES),segno-agents/probe,segno-snapshot/probe -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --quiet --workspace --no-deps --document-private-items $(FEATURES),segno-agents/probe,segno-snapshot/probe
	$(CARGO) deny check bans sources licenses

bench: ## Measure against the bare disk and the peers, in one run (docs in bench/)
	@$(CARGO) build --quiet --release -p segno-cli -p segno-testkit
	@./target/release/bench --segno target/release/segno --peers target/peers

crash: tools ## Kill runs and checkpoints at every failpoint and write-like system call, servers and agents at work; flip a bit of every byte
	@$(CARGO) build --quiet -p segno-cli -p segno-testkit $(FEATURES)
	@./target/debug/crash --segno target/debug/segno --seed $(SEED)
	@./target/debug/flips --segno target/debug/segno --seed $(SEED) --bits $(BITS)

fuzz: ## Try every parser of outside bytes with broken input, MINUTES for each
	@$(CARGO) build --quiet --release --manifest-path fuzz/Cargo.toml
	@./fuzz/target/release/segno-fuzz all $(MINUTES) $(SEED)

mutants: ## Change FILE in every small way, and list the changes that its tests do not notice
	@$(CARGO) mutants --version > /dev/null 2>&1 || $(CARGO) install --locked --quiet cargo-mutants --version $(MUTANTS_VERSION)
	@CARGO_PROFILE_TEST_DEBUG=0 $(CARGO) mutants --file '$(FILE)' --output target

tools:
	@mkdir -p target
	@missing=$$(for package in $(DEBIAN_PACKAGES); do dpkg -s $$package > /dev/null 2>&1 || echo $$package; done; \
	  command -v npm > /dev/null || echo nodejs npm); \
	test -z "$$missing" || { echo "installing $$missing"; \
	  sudo=$$(test $$(id -u) -eq 0 || echo sudo); \
	  $$sudo apt-get -qq update && $$sudo apt-get -qq install --no-install-recommends -y $$missing > target/apt.log; }
	@test -x target/python/bin/python || python3 -m venv target/python
	@for package in $(PYTHON_PACKAGES); do \
	  target/python/bin/pip show -qq $${package%%[[=]*} 2> /dev/null || { target/python/bin/pip install -q --disable-pip-version-check $(PYTHON_PACKAGES); break; }; done
	@for package in $(NPM_PACKAGES); do \
	  grep -qs "\"version\": *\"$${package##*@}\"" target/npm/node_modules/$${package%@*}/package.json && continue; \
	  echo "installing $(NPM_PACKAGES)"; \
	  npm install --silent --no-audit --no-fund --save-exact --prefix target/npm $(NPM_PACKAGES) > target/npm.log 2>&1 || { cat target/npm.log; exit 1; }; break; done
	@$(CARGO) nextest --version > /dev/null 2>&1 || $(CARGO) install --locked --quiet cargo-nextest --version $(NEXTEST_VERSION)
	@$(CARGO) deny --version > /dev/null 2>&1 || $(CARGO) install --locked --quiet cargo-deny --version $(DENY_VERSION)
