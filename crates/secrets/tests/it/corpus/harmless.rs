//! Text that looks like secrets and that an agent needs again.

use super::Sample;
use super::draw::{BASE32, BASE36, BASE64, CROCKFORD, DIGITS, Draw, HEX, UPPER36, URL_SAFE};
use super::encodings;

pub(super) fn sample(draw: &Draw) -> Sample {
    let (kind, text) = match draw.below(8) {
        0 => hash(draw),
        1 => identifier(draw),
        2 => encoded(draw),
        3 => lock_file(draw),
        4 => code(draw),
        5 => reference(draw),
        6 => log(draw),
        _ => prose(draw),
    };
    Sample {
        kind: kind.to_owned(),
        text,
        bodies: Vec::new(),
    }
}

fn filled(draw: &Draw, template: &str, value: &str) -> String {
    template
        .replace("{host}", &draw.host())
        .replace("{word}", draw.word())
        .replace("{value}", value)
}

fn hash(draw: &Draw) -> (&'static str, String) {
    let length = draw.one(&[32, 40, 40, 64, 64, 128]);
    let template = draw.one(&[
        "commit {value}\nAuthor: Ada <ada@example.com>\n\n    {word}: rename the token type\n",
        "{value}  {word}.tar.gz\n",
        "HEAD is now at {value} {word}: fix the key handling",
        "b3sum: {value}",
        "checksum = \"{value}\"",
        "FROM nginx@sha256:{value}",
        "Subproject commit {value}",
        "tree {value}\nparent {value}\n",
        "ETag: \"{value}\"",
        "\"sha256\": \"{value}\",",
        "cache key: {value}",
        "cache hit for key {value}",
        "{value} refs/heads/{word}",
        "index {value}..{value} 100644",
        "Change-Id: I{value}",
        "\"key\": \"{value}\"",
        "primary key {value} in table {word}",
        "/nix/store/{value}-{word}-1.2.3/bin",
        "digest: {value}",
        "chunk {value} of pack 0007",
    ]);
    ("hash", filled(draw, template, &draw.hex(length)))
}

fn identifier(draw: &Draw) -> (&'static str, String) {
    let value = match draw.below(8) {
        0 | 1 => draw.uuid(),
        2 => draw.text(CROCKFORD, 26),
        3 => format!("toolu_01{}", draw.mixed(22)),
        4 => format!("msg_01{}", draw.mixed(22)),
        5 => format!("call_{}", draw.mixed(24)),
        6 => format!("resp_{}", draw.hex(50)),
        _ => format!("cus_{}", draw.mixed(14)),
    };
    let template = draw.one(&[
        "session {value} resumed",
        "\"id\": \"{value}\"",
        "request_id={value}",
        "{\"type\":\"tool_use\",\"id\":\"{value}\",\"name\":\"Bash\"}",
        "X-Request-Id: {value}\r\n",
        "trace {value} took 12 ms",
        "{value}.jsonl",
        "/sessions/{value}/runs",
        "container {value} started",
        "{\"parentUuid\":\"{value}\",\"isSidechain\":false}",
        "https://{host}/items/{value}?page=2",
        "correlation id: {value}",
        "key {value} not found in {word}",
        "tenant: {value}",
    ]);
    ("identifier", filled(draw, template, &value))
}

fn encoded(draw: &Draw) -> (&'static str, String) {
    let bytes = |length| encodings::standard(&draw.bytes(length));
    let lines = |text: &str, columns| {
        let lines: Vec<_> = text
            .as_bytes()
            .chunks(columns)
            .map(String::from_utf8_lossy)
            .collect();
        lines.join("\n")
    };
    match draw.below(12) {
        0 => (
            "image",
            format!(
                "![x](data:image/png;base64,iVBORw0KGgo{})",
                bytes(draw.between(40, 400))
            ),
        ),
        1 => (
            "font",
            format!(
                "src: url(data:font/woff2;base64,d09GMgABAAAA{}) format('woff2');",
                bytes(200)
            ),
        ),
        2 => (
            "certificate",
            format!(
                "-----BEGIN CERTIFICATE-----\nMII{}\n-----END CERTIFICATE-----\n",
                lines(&draw.text(BASE64, 600), 64)
            ),
        ),
        3 => (
            "public key",
            format!(
                "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} ada@{}",
                draw.text(BASE64, 43),
                draw.word()
            ),
        ),
        4 => (
            "fingerprint",
            format!("256 SHA256:{} ada (ED25519)", draw.text(BASE64, 43)),
        ),
        5 => (
            "hex dump",
            (0..4)
                .map(|line| {
                    let groups: Vec<_> = (0..8).map(|_| draw.hex(4)).collect();
                    format!("{line:07x}0: {}  ................\n", groups.join(" "))
                })
                .collect::<Vec<_>>()
                .concat(),
        ),
        6 => (
            "base64 file",
            format!("{}\n", lines(&bytes(draw.between(200, 600)), 76)),
        ),
        7 => (
            "base64 text",
            encodings::standard(draw.words(12, " ").as_bytes()),
        ),
        8 => (
            "image in JSON",
            format!(
                "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":\"image/jpeg\",\"data\":\"/9j/4AAQSkZJRg{}\"}}}}",
                bytes(300)
            ),
        ),
        9 => (
            "signature",
            format!("{{\"type\":\"thinking\",\"signature\":\"{}\"}}", bytes(150)),
        ),
        10 => (
            "source map",
            format!(
                "{{\"version\":3,\"mappings\":\"AAAA,{}\"}}",
                (0..12)
                    .map(|_| draw.text("ACEGIKMOQSUW", 4))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
        _ => (
            "bytes",
            (0..4)
                .map(|_| {
                    let bytes: Vec<_> = (0..12).map(|_| format!("0x{}", draw.hex(2))).collect();
                    format!("    {},\n", bytes.join(", "))
                })
                .collect::<Vec<_>>()
                .concat(),
        ),
    }
}

fn lock_file(draw: &Draw) -> (&'static str, String) {
    let version = format!("{}.{}.{}", draw.below(9), draw.below(40), draw.below(20));
    let word = draw.words(2, "-");
    let sri = format!("sha512-{}==", draw.text(BASE64, 86));
    let text = match draw.below(8) {
        0 => format!("\"integrity\": \"{sri}\","),
        1 => format!("  resolution: {{integrity: {sri}}}\n"),
        2 => format!(
            "name = \"{word}\"\nversion = \"{version}\"\nchecksum = \"{}\"\n",
            draw.hex(64)
        ),
        3 => format!(
            "example.org/{word} v{version} h1:{}=\n",
            draw.text(BASE64, 43)
        ),
        4 => format!("{word}=={version} \\\n    --hash=sha256:{}\n", draw.hex(64)),
        5 => format!(
            "https://registry.example.org/{word}/-/{word}-{version}.tgz#{}",
            draw.hex(40)
        ),
        6 => format!("\"hash\": \"sha256-{}=\"", draw.text(BASE64, 43)),
        _ => format!("{word}@^{version}:\n  version \"{version}\"\n  integrity {sri}\n"),
    };
    ("lock file", text)
}

fn code(draw: &Draw) -> (&'static str, String) {
    let minified = "!function(e,t){\"object\"==typeof exports?module.exports=t():e.KEY=t()}(this,function(){var n={},r=function(e){return n[e]||(n[e]={i:e,l:!1,exports:{}})};return r.token=function(e,t){return t&&e.key!==t?r(e.key):e},r});";
    let text = match draw.below(14) {
        0 => minified.replace("KEY", &draw.words(2, "_")),
        1 => format!(
            ".{}_{}__{} {{ color: #{}; margin: 0 auto }}",
            draw.word(),
            draw.word(),
            draw.mixed(5),
            draw.hex(6)
        ),
        2 => format!(
            "<script src=\"/assets/index-{}.js\"></script>",
            draw.text(URL_SAFE, 8)
        ),
        3 => format!("_ZN4core3fmt9Formatter{}17h{}E", draw.word(), draw.hex(16)),
        4 => format!(
            "let {}_key = map.get(&{}_token).ok_or(Error::Missing)?;",
            draw.word(),
            draw.word()
        ),
        5 => format!(
            "fn {}_token(secret: &str, password: Option<String>) -> Result<Token, Error> {{",
            draw.word()
        ),
        6 => format!(
            "const {{ apiKey, authToken }} = use{}Config();",
            draw.word()
        ),
        7 => "<path d=\"M12 2C6.48 2 2 6.48 2 12s4.48 10 10 10 10-4.48 10-10S17.52 2 12 2z\"/>"
            .to_owned(),
        8 => format!("assert_eq!(digest, \"{}\");", draw.hex(64)),
        9 => format!(
            "password = getpass.getpass(prompt='{} password: ')",
            draw.word()
        ),
        10 => format!("token = response.json()[\"{}_token\"]", draw.word()),
        11 => format!(
            "throw new {}Error(\"invalid token: expected identifier, found `{}`\")",
            draw.word(),
            draw.word()
        ),
        12 => format!(
            "grid-template-columns: repeat(auto-fill, minmax({}px, 1fr));",
            draw.between(80, 400)
        ),
        _ => format!(
            "if (user.password !== form.{}Password) {{ return {}Token.none() }}",
            draw.word(),
            draw.word()
        ),
    };
    ("code", text)
}

fn reference(draw: &Draw) -> (&'static str, String) {
    let template = draw.one(&[
        "password: see vault",
        "token: <your token>",
        "API_KEY=$API_KEY",
        "export TOKEN=\"${GITHUB_TOKEN}\"",
        "api_key = os.environ[\"{word}_KEY\"]",
        "token: process.env.{word}_TOKEN,",
        "password: ${{ secrets.DEPLOY_PASSWORD }}",
        "password = \"{{ {word}_password }}\"",
        "secret: {word}-credentials",
        "secretName: {word}-tls",
        "secretKeyRef:\n  name: {word}\n  key: password\n",
        "--password-stdin < {word}.txt",
        "curl -u \"$USER:$PASSWORD\" https://{host}/",
        "curl -H \"Authorization: Bearer $TOKEN\" https://{host}/",
        "Authorization: Token <token>",
        "Authorization: Token ${TOKEN}",
        "mysql -u root -p {word}",
        "--token $(cat /run/secrets/{word})",
        "private_key: /etc/ssl/{word}.pem",
        "machine {host} login {word} password $PASSWORD",
        "https://{word}:***@{host}/",
        "postgres://user:password@localhost:5432/{word}",
        "?token=YOUR_TOKEN&page=2",
        "api_key: \"xxxxxxxxxxxxxxxxxxxxxxxx\"",
        "sk-... or sk-ant-...",
        "AWS_SECRET_ACCESS_KEY=********",
        "vault kv get -field=password secret/{word}",
        "op://{word}/database/password",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:{word}-AbCdEf",
        "password_file: ./{word}/secret.txt",
        "[secret:API_KEY:0a1b2c]",
        "ssh -i ~/.ssh/id_ed25519 {word}@{host}",
        "mkdir -p src/{word}",
        "cp -p {word}.txt backup/{word}.txt",
        "docker run -p 8080:80 -u 1000:1000 {word}",
        "docker compose -p {word}-{word} up",
        "git push -u origin {word}/token-refresh",
        "ps -u {word} -p 4711",
    ]);
    ("reference", filled(draw, template, ""))
}

fn log(draw: &Draw) -> (&'static str, String) {
    let number = draw.between(2, 200_000);
    let template = draw.one(&[
        "token count: {value}",
        "usage: input_tokens={value} output_tokens=512 cache_read_input_tokens=90211",
        "\"max_tokens\": {value},",
        "tokens/s: {value}.7",
        "2026-11-15T16:11:03.120Z INFO {word}: key rotation finished in {value} ms",
        "   Compiling {word} v1.{value}.0 (/home/ada/src/{word})",
        "test {word}::token_expires_after_{value}_seconds ... ok",
        "thread 'main' panicked at src/{word}.rs:{value}:9:\npassword must not be empty",
        "error[E0425]: cannot find value `{word}_token` in this scope\n --> src/{word}.rs:{value}:5",
        "at Object.<anonymous> (/app/node_modules/{word}/dist/index.js:{value}:13)",
        "0x00007f{hex} in {word}_key_compare () from /lib/x86_64-linux-gnu/libc.so.6",
        "GET /api/v2/{word}/{value}/tokens 200 in 12ms",
        "nextPageToken: \"{page}\"",
        "Downloaded {word}-{value}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "drwxr-xr-x 2 ada ada {value} Nov 15 16:11 {word}",
        "MAC 02:42:ac:11:00:02 inet6 fe80::42:acff:fe11:2/64 port {value}",
        "ami-0{hex}1234 in eu-west-1a, account 123456789012",
        "build {word}-{upper} finished",
        "Failed password for invalid user {word} from 10.0.0.1 port {value} ssh2",
        "hint: the secret `{word}` is not set; set {word}_KEY",
        "i-0{hex}12345 vpc-0{hex}12345 sg-0{hex}12345",
        "https://www.youtube.com/watch?v={watch}",
        "https://{host}/wiki/Key_(cryptography)?action=edit&section={value}",
        "G-{upper} UA-{value}-1",
        "onion: {onion}.onion",
    ]);
    let text = template
        .replace("{hex}", &draw.hex(12))
        .replace("{page}", &draw.mixed(24))
        .replace("{upper}", &draw.text(UPPER36, 10))
        .replace("{watch}", &draw.text(URL_SAFE, 11))
        .replace("{onion}", &draw.text(BASE32, 56).to_lowercase());
    ("log", filled(draw, &text, &number.to_string()))
}

fn prose(draw: &Draw) -> (&'static str, String) {
    let template = draw.one(&[
        "Rotate the API key every 90 days and keep the {word} token in the keychain.",
        "The secret of a good {word} is a short {word}.",
        "Enter your password: ",
        "Please set a password with at least 12 characters.",
        "Basic authentication is required to reach {host}.",
        "The token is stored in {word}.json and never printed.",
        "Bearer tokens expire after {digits} seconds.",
        "key: value pairs are separated by a {word}",
        "The access token is invalid or expired, see https://{host}/docs/authentication",
        "Press any key to continue",
        "the key is to keep {word}s small",
        "| password | string | required | The {word} password |",
        "- [ ] token: rename `{word}Token` to `{word}_token`",
        "Add `token = {word}` to `[{word}]` in config.toml.",
        "primary key ({word}_id, {word}_at)",
        "Secret santa: {word}",
        "password policy: {word}-{word}-{word}",
        "I passed the token {word} to the parser",
        "api key not found for {word}.{word}",
        "Usage: tool login [--token TOKEN] [--password PASSWORD] -u USER",
        "--password PASSWORD   the password of {word}",
        "  -p, --password <PASSWORD>  Password for the {word} server",
        "user: {word}, password: (unchanged)",
        "Isbn 978-{digits}, model {upper}",
        "Login: {word}@{host}; the key fingerprint is {print}",
        "{base36} is the short name of the deployment",
    ]);
    let text = template
        .replace("{digits}", &draw.text(DIGITS, 5))
        .replace("{upper}", &draw.text(UPPER36, 8))
        .replace("{base36}", &draw.text(BASE36, 9))
        .replace(
            "{print}",
            &(0..16)
                .map(|_| draw.text(HEX, 2))
                .collect::<Vec<_>>()
                .join(":"),
        );
    ("prose", filled(draw, &text, ""))
}
