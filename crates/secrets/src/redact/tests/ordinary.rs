//! Text that must stay unchanged: one test per exclusion, and pages of ordinary technical text.

use super::super::encoding;
use super::{HEX, LETTERS, assert_hidden, assert_untouched, random_text};

/// A random token, to show that the exclusion and not the token decides.
fn token(length: usize) -> String {
    random_text(LETTERS, length)
}

#[test]
fn delimited_random_tokens_are_hidden() {
    for length in [32, 40, 64, 128] {
        let token = token(length);
        for (before, after) in [
            ("", ""),
            ("got ", " back"),
            ("value=", ""),
            ("\"", "\""),
            ("(", ")."),
            ("+", "\n"),
            (r"\n", r"\n"),
        ] {
            assert_hidden(&format!("{before}{token}{after}"), &token, "random");
        }
    }
}

#[test]
fn ids_and_digests_stay() {
    let base64 = format!("{}==", token(86));
    for text in [
        random_text(HEX, 40),
        random_text(HEX, 64).to_uppercase(),
        random_text("0123456789abcdefABCDEF", 128),
        "123e4567-e89b-12d3-a456-426614174000".to_owned(),
        "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
        format!("sha512-{base64}"),
        format!("integrity sha384-{}", token(64)),
        format!("golang.org/x/net v0.1.0 h1:{}=", token(43)),
        format!("SHA256:{} me@host (ED25519)", token(43)),
        format!("toolu_01{}", token(22)),
        format!("\"id\":\"msg_01{}\"", token(22)),
        format!("call_{}", token(24)),
        format!("\"tool_use_id\": \"{}\"", token(30)),
        format!("requestId={}", token(32)),
        format!("\"signature\":\"{}\"", token(120)),
        format!("etag: \"{}\"", token(32)),
        format!("nextPageToken: \"{}\"", token(15)),
    ] {
        assert_untouched(&text);
    }
}

#[test]
fn names_and_paths_stay() {
    for text in [
        "AbstractSingletonProxyFactoryBeanConfigurationPostProcessorV2Test",
        "THE_QUICK_BROWN_FOX_jumps_over_the_lazy_dog_and_runs_42_times",
        "theQuickBrownFoxJumpsOverTheLazyDogWithVeryFewGlitches2024",
        "libwebkit2gtk-4.1-dev_2.44.0-0ubuntu0.22.04.1_amd64.deb",
        "x86_64-unknown-linux-gnu-nightly-2024-05-01-JmpZqkVx",
        "packages/WebApp2/src/components/UserProfileHeaderQuickJump/index",
        r"C:\Users\me\AppData\Local\Programs\Qx7KpZ2mWv9Lr4TnBs8YcQd3\app.exe",
    ] {
        assert_untouched(text);
    }
    let random = token(40);
    for text in [
        format!("https://drive.example.com/file/d/{random}/view"),
        format!("https://example.com/?v={random}"),
        format!("/tmp/build/{random}/out"),
        format!("./{random}.js"),
        format!("drive/folders/{random}"),
        format!("user@{random}"),
        format!("{random}.cloudfront.net"),
    ] {
        assert_untouched(&text);
    }
}

#[test]
fn contents_of_files_stay() {
    let line = token(76);
    for text in [
        format!("data:image/png;base64,{}", token(120)),
        format!("url(data:font/woff2;base64,{})", token(160)),
        format!("iVBORw0KGgo{}", token(100)),
        format!("{line}\n{line}\n{}", token(30)),
        format!("  {line}\n  {}\n", token(40)),
        format!(r#""{line}\n{line}\n{}\n""#, token(30)),
        format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{} me@host", token(48)),
        token(201),
        encoding::base64(b"The quick brown fox jumps over the lazy dog, 42 times in Berlin"),
    ] {
        assert_untouched(&text);
    }
}

#[test]
fn assignments_without_a_secret_stay() {
    for text in [
        "password=${DB_PASSWORD}",
        "password: \"<your key>\"",
        "api_key = 'xxx'",
        "token=***",
        "password: changeme",
        "TOKEN=$(cat file1)",
        "token = parser.next_token2()",
        "let secret: String = read();",
        "password: Option<String>",
        "password=password",
        "token=self.token2",
        "api_key=os.environ[\"API_KEY_1\"]",
        "apiKey: process.env.API_KEY_1",
        "max_tokens: 4096",
        "\"token\": \"identifier2\"",
        "secretName: my-app-tls-2024",
        "secret: db-credentials-v2",
        "\"password\": \"Enter your password 2\"",
        "token_type: \"bearer\"",
        "expires_token: 2024-01-15T10:00:00Z",
        "secret: ./conf/a1.json",
        "password == other9",
        "token::Kind2",
        "if (token === undefined) {",
        "auth: oauth2-proxy",
        "private_key = file(\"~/.ssh/id_ed25519\")",
        "\"key\": \"a8f5f167f44f4964\"",
        "token: { type: 'string' }",
        "password: {{ vault_db_password }}",
        "password:",
        "secret = \"arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-a1b2c3\"",
        "const token = await getToken3();",
        "let key = sort_key(1);",
        "fn auth(token: &str) -> u64",
    ] {
        assert_untouched(text);
    }
}

#[test]
fn pages_of_ordinary_text_stay() {
    let (commit, digest) = (random_text(HEX, 40), random_text(HEX, 64));
    let sri = format!("sha512-{}==", token(86));
    for page in [
        format!("[[package]]\nname = \"regex\"\nversion = \"1.13.1\"\nsource = \"registry+https://example.org/index\"\nchecksum = \"{digest}\"\n"),
        format!("\"node_modules/@babel/core\": {{\n  \"version\": \"7.24.0\",\n  \"resolved\": \"https://registry.example.org/@babel/core/-/core-7.24.0.tgz\",\n  \"integrity\": \"{sri}\"\n}}"),
        format!("  resolution: {{integrity: {sri}}}\n  engines: {{node: '>=14'}}\n"),
        format!("commit {commit}\nMerge: {} {}\nAuthor: Jo <jo@example.com>\nDate:   Mon Jan 15 10:00:00 2024 +0100\n\n    core: rotate the token key\n", &commit[..7], &commit[8..15]),
        format!("FROM rust:1.95@sha256:{digest}\nRUN cargo build --release\nENV AUTH_MODE=development\n"),
        "# Set-up\n\nExport your key: `export OPENAI_API_KEY=sk-...`, then run\n\n```sh\ncurl -H \"Authorization: Bearer $OPENAI_API_KEY\" https://api.openai.com/v1/models\n```\n".to_owned(),
        "pub fn token(&self) -> Result<Token, Error> {\n    let secret: &str = self.secret.as_ref();\n    Token::new(secret, Duration::from_secs(3600))\n}\n".to_owned(),
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - name: DB_PASSWORD\n      valueFrom:\n        secretKeyRef:\n          name: db-credentials\n          key: password\n".to_owned(),
        "diff --git a/src/auth.rs b/src/auth.rs\nindex 3a1f2c9..8d7e6b5 100644\n--- a/src/auth.rs\n+++ b/src/auth.rs\n@@ -1,3 +1,3 @@\n-let key = old();\n+let key = new();\n".to_owned(),
    ] {
        assert_untouched(&page);
    }
}
