//! Secrets that only their surroundings betray: headers, addresses, queries, commands, files.

use super::draw::{ALPHANUMERIC, BASE36, BASE64, DIGITS, Draw, PASSWORD, URL_SAFE};
use super::{Sample, encodings};

pub(super) fn sample(draw: &Draw) -> Sample {
    match draw.below(8) {
        0 => in_prose(draw),
        1 => in_header(draw),
        2 => in_address(draw),
        3 => in_query(draw),
        4 | 5 => in_command(draw),
        6 => in_netrc(draw),
        _ => in_file(draw),
    }
}

fn filled(draw: &Draw, kind: &str, template: &str, value: String) -> Sample {
    let text = template
        .replace("{host}", &draw.host())
        .replace("{user}", draw.word())
        .replace("{value}", &value);
    Sample::new(format!("{kind}: {template}"), text, value)
}

/// A random token of 24 and more letters and digits.
fn token(draw: &Draw) -> String {
    let length = draw.between(24, 64);
    let alphabet = draw.one(&[ALPHANUMERIC, ALPHANUMERIC, URL_SAFE]);
    draw.mixed(4) + &draw.text(alphabet, length - 8) + &draw.mixed(4)
}

fn password(draw: &Draw) -> String {
    let length = draw.between(10, 20);
    draw.mixed(2) + &draw.text(PASSWORD, length - 2)
}

fn in_prose(draw: &Draw) -> Sample {
    let template = draw.one(&[
        "The API key is {value}.",
        "API key: {value}",
        "api key = {value}",
        "Access token: {value}\n",
        "Your token: {value}",
        "token {value} was accepted",
        "the secret is `{value}`",
        "Secret access key: {value}",
        "auth token -> {value}",
        "key={value}",
        "key: {value}",
        "password is {value}",
        "Here is my key:\n{value}\n",
        "Use this key: \"{value}\"",
        "Enter token: {value}\nWelcome, {user}!",
        "# secret key\n{value}\n",
    ]);
    filled(draw, "prose", template, token(draw))
}

fn in_header(draw: &Draw) -> Sample {
    if draw.below(4) == 0 {
        let login = format!("{}:{}", draw.word(), password(draw));
        let template = draw.one(&[
            "Authorization: Basic {value}",
            "curl -H 'Authorization: Basic {value}' https://{host}/",
            "Proxy-Authorization: basic {value}\r\n",
            "{\"Authorization\": \"Basic {value}\"}",
            "{\"auths\": {\"https://{host}\": {\"auth\": \"{value}\"}}}",
            "//{host}/:_auth={value}\n",
        ]);
        return filled(
            draw,
            "header",
            template,
            encodings::standard(login.as_bytes()),
        );
    }
    let template = draw.one(&[
        "Authorization: Token {value}",
        "authorization: token {value}\r\nAccept: */*\r\n",
        "Authorization: Bearer {value}",
        "Authorization: ApiKey {value}",
        "Authorization: GenieKey {value}",
        "Authorization: Key {value}\n",
        "Authorization: Bot {value}",
        "Authorization: SSWS {value}",
        "Authorization: {value}",
        "Authorization: token=\"{value}\"",
        "curl -H 'Authorization: Token {value}' https://{host}/",
        "curl -H \"authorization: token {value}\" https://{host}/",
        "{\"Authorization\": \"Token {value}\"}",
        "headers={'Authorization': 'Token {value}'}",
        "req.Header.Set(\"Authorization\", \"token {value}\")",
        "X-Auth-Token: {value}",
        "Private-Token: {value}",
        "PRIVATE-TOKEN: {value}",
        "X-Vault-Token: {value}",
        "x-api-key: {value}\n",
        "X-Amz-Security-Token: {value}",
        "Ocp-Apim-Subscription-Key: {value}",
        "> Authorization: Token {value}\n> Host: {host}",
        "Cookie: session={value}; theme=dark",
        "Set-Cookie: sessionid={value}; HttpOnly; Path=/",
    ]);
    filled(draw, "header", template, token(draw))
}

fn in_address(draw: &Draw) -> Sample {
    let template = draw.one(&[
        "postgres://{user}:{value}@{host}:5432/app",
        "DATABASE_URL=postgresql://{user}:{value}@{host}/app?sslmode=require",
        "mysql://{user}:{value}@{host}/db",
        "mongodb+srv://{user}:{value}@{host}/?retryWrites=true",
        "amqps://{user}:{value}@{host}/vhost",
        "redis://:{value}@{host}:6379/0",
        "rediss://default:{value}@{host}:6380",
        "https://{user}:{value}@{host}/repo.git",
        "fatal: unable to access 'https://{user}:{value}@{host}/x.git/': 403",
        "https://{value}@{host}/repo.git",
        "git clone https://oauth2:{value}@{host}/a/b.git",
        "ftp://{user}:{value}@{host}/pub",
        "smtp://{user}%40example.com:{value}@{host}:587",
        "https%3A%2F%2F{user}%3A{value}%40{host}%2Frepo.git",
        "http://{user}:{value}@proxy.{host}:3128",
    ]);
    let value = match draw.below(3) {
        _ if template.contains("://{value}") => token(draw),
        0 => token(draw),
        1 => draw.mixed(draw.between(10, 20)),
        // With characters that an address must escape.
        _ => format!(
            "{}%40{}%2F{}%21",
            draw.mixed(8),
            draw.mixed(8),
            draw.mixed(8)
        ),
    };
    filled(draw, "address", template, value)
}

fn in_query(draw: &Draw) -> Sample {
    let template = draw.one(&[
        "https://{host}/c/blob?sv=2024-11-04&se=2026-12-01&sr=b&sp=r&sig={value}",
        "https://{host}/f?expires=1794738089&signature={value}",
        "https://{host}/f?X-Amz-Date=20261115T000000Z&X-Amz-Signature={value}&x-id=GetObject",
        "https://{host}/f?GoogleAccessId=a&Expires=17&Signature={value}",
        "https://{host}/hook?token={value}",
        "GET /v1/items?key={value}&page=2 HTTP/1.1",
        "GET /v1/items?access_token={value} HTTP/1.1",
        "https://{host}/maps/api/js?key={value}&callback=init",
        "https://{host}/v1?api_key={value}",
        "https://{host}/v1?apikey={value}&limit=10",
        "wss://{host}/socket?auth={value}",
        "https://{host}/reset?secret={value}",
        "redirected to https://{host}/cb#access_token={value}&token_type=bearer",
        "https://{host}/dl?X-Amz-Credential=a%2F20261115&X-Amz-Security-Token={value}&x=1",
        "grant_type=refresh_token&refresh_token={value}",
        "client_id=app&client_secret={value}",
    ]);
    let value = if template.contains("sig={value}") || template.contains("Expires=17") {
        format!("{}%3D", draw.mixed(43))
    } else if template.contains("ignature={value}") {
        draw.hex(64)
    } else {
        token(draw)
    };
    filled(draw, "query", template, value)
}

fn in_command(draw: &Draw) -> Sample {
    let template = draw.one(&[
        "curl -u {user}:{value} https://{host}/",
        "curl -u '{user}:{value}' https://{host}/",
        "curl -fsS --user {user}:{value} https://{host}/",
        "curl --user \"{user}:{value}\" -X POST https://{host}/",
        "curl -s -u{user}:{value} https://{host}/",
        "curl --proxy-user {user}:{value} https://{host}/",
        "wget --user={user} --password={value} https://{host}/",
        "wget --http-password={value} https://{host}/",
        "mysql -u root -p{value} app",
        "mysqldump --user=root --password={value} app > dump.sql",
        "mysql -h {host} -u {user} -p'{value}' app",
        "mariadb -uroot -p{value} -e 'select 1'",
        "sshpass -p {value} ssh {user}@{host}",
        "sshpass -p '{value}' scp a {user}@{host}:",
        "docker login -u {user} -p {value} {host}",
        "docker login --username {user} --password {value}",
        "podman login -u {user} -p={value} {host}",
        "tool login --token {value}",
        "tool login --token={value}",
        "gh secret set NAME --body {value} --auth-token {value}",
        "npm publish --token \"{value}\"",
        "redis-cli -h {host} -a {value} ping",
        "redis-cli --pass {value} ping",
        "openssl enc -d -pass pass:{value} -in a",
        "openssl rsa -passin pass:{value} -in a",
        "mongosh --username {user} --password {value} {host}",
        "az login --service-principal -u {user} -p {value} --tenant a",
        "aws configure set aws_secret_access_key {value}",
        "helm install app . --set auth.password={value}",
        "kubectl create secret generic db --from-literal=password={value}",
        "twine upload -u __token__ -p {value} dist/*",
        "deploy --api-key {value} --region eu-west-1",
        "deploy --secret '{value}'",
        "deploy --access-key=\"{value}\"",
        "[\"tool\", \"--password\", \"{value}\"]",
        "args: ['--token', '{value}']",
        "subprocess.run([\"curl\", \"-u\", \"{user}:{value}\", url])",
        "PGPASSWORD={value} psql -h {host}",
        "psql \"host={host} user={user} password={value} dbname=app\"",
        "htpasswd -b file {user} {value}",
        "ldapsearch -x -D cn=admin -w {value} -b dc=example",
        "echo {value} | docker login --password-stdin",
        "git config --global credential.password {value}",
        "7z x -p{value} archive.7z",
        "zip -P {value} out.zip a",
    ]);
    // Without a name next to it, only randomness tells a password from a word.
    let value = match draw.below(3) {
        _ if template.starts_with("echo") => token(draw),
        0 => token(draw),
        1 => draw.mixed(draw.between(12, 20)),
        _ => {
            format!(
                "{}{}",
                draw.mixed(6),
                draw.text(PASSWORD, 10).replace(['!', '#', '*', '='], "-")
            ) + &draw.mixed(1)
        }
    };
    filled(draw, "command", template, value)
}

fn in_netrc(draw: &Draw) -> Sample {
    let template = draw.one(&[
        "machine {host} login {user} password {value}\n",
        "machine {host}\n  login {user}\n  password {value}\n",
        "machine {host}\nlogin {user}\npassword {value}\n\nmachine {host}\n",
        "default login {user} password {value}\n",
        "cat ~/.netrc\\nmachine {host}\\nlogin {user}\\npassword {value}\\n",
        "machine {host} login {user} account x password {value} macdef init",
    ]);
    let value = match draw.below(3) {
        0 => password(draw),
        1 => token(draw),
        _ => draw.text(BASE36, 14),
    };
    filled(draw, "netrc", template, value)
}

fn in_file(draw: &Draw) -> Sample {
    match draw.below(10) {
        0 => private_key(draw),
        1 => {
            let template = draw.one(&[
                "https://hooks.slack.com/services/T01ABCDEF/B01ABCDEF/{value}",
                "https://discord.com/api/webhooks/123456789012345678/{value}",
                "https://outlook.office.com/webhook/a1/IncomingWebhook/{value}/b2",
            ]);
            let value = if template.contains("office") {
                draw.hex(32)
            } else if template.contains("slack") {
                draw.mixed(24)
            } else {
                draw.text(URL_SAFE, 68)
            };
            filled(draw, "webhook", template, value)
        }
        2 => {
            let template = draw.one(&[
                "DefaultEndpointsProtocol=https;AccountName=app;AccountKey={value};EndpointSuffix=core.windows.net",
                "Endpoint=sb://{host}/;SharedAccessKeyName=Root;SharedAccessKey={value}",
                "HostName={host};DeviceId=d1;SharedAccessKey={value}",
                "AccountEndpoint=https://{host}:443/;AccountKey={value};",
            ]);
            filled(
                draw,
                "connection",
                template,
                format!("{}==", draw.text(BASE64, 86)),
            )
        }
        3 => {
            let template = draw.one(&[
                "Server={host};Database=app;User Id={user};Password={value};Encrypt=true",
                "jdbc:postgresql://{host}/app?user={user}&password={value}",
                "Data Source={host};uid={user};pwd={value};",
                "spring.datasource.password={value}\n",
            ]);
            filled(draw, "connection", template, draw.mixed(16))
        }
        4 => {
            let template = draw.one(&[
                "TWILIO_ACCOUNT_SID=AC{sid}\nTWILIO_AUTH_TOKEN={value}\n",
                "curl https://api.twilio.com/2010-04-01/Accounts/AC{sid}/Messages.json -u AC{sid}:{value}",
                "Client(\"AC{sid}\", \"{value}\")",
                "new Twilio('AC{sid}', '{value}')",
                "twilio(accountSid=AC{sid}, authToken={value})",
            ]);
            let template = template.replace("{sid}", &draw.hex(32));
            let value = draw.hex(32);
            Sample::new("twilio", template.replace("{value}", &value), value)
        }
        5 => {
            let template = draw.one(&[
                "[default]\naws_access_key_id = x\naws_secret_access_key = {value}\nregion = eu-west-1\n",
                "{\"AccessKeyId\": \"x\", \"SecretAccessKey\": \"{value}\", \"Version\": 1}",
                "<SecretAccessKey>{value}</SecretAccessKey>",
                "aws_session_token={value}\n",
            ]);
            filled(draw, "aws", template, draw.text(BASE64, 40))
        }
        6 => {
            let template = draw.one(&[
                "[pypi]\nusername = __token__\npassword = {value}\n",
                "//registry.{host}/:_authToken={value}\nregistry=https://registry.{host}/\n",
                "<server><id>a</id><password>{value}</password></server>",
                "[registry]\ntoken = \"{value}\"\n",
                "machine:\n  credentials:\n    user: {user}\n    password: {value}\n",
                "<add key=\"ApiKey\" value=\"{value}\" />",
                "user_pref(\"auth.token\", \"{value}\");",
            ]);
            filled(draw, "settings", template, token(draw))
        }
        7 => {
            let line = format!("{}==", draw.text(BASE64, 54));
            filled(
                draw,
                "secret",
                "kind: Secret\nmetadata:\n  name: db\ndata:\n  password: {value}\n",
                line,
            )
        }
        8 => {
            let template = draw.one(&[
                "api.mailgun.net/v3 --user 'api:key-{value}'",
                "auth=(\"api\", \"key-{value}\")",
                "mailgun.client({ username: 'api', key: '{value}-aabbccdd-00112233' })",
            ]);
            filled(draw, "mailgun", template, draw.hex(32))
        }
        _ => {
            let template = draw.one(&[
                "https://api.telegram.org/bot{id}:AA{value}/sendMessage",
                "bot = Bot(\"{id}:AA{value}\")",
            ]);
            let template = template.replace("{id}", &draw.text(DIGITS, 10));
            filled(draw, "telegram", &template, draw.text(URL_SAFE, 33))
        }
    }
}

fn private_key(draw: &Draw) -> Sample {
    let kind = draw.one(&["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""]);
    let line_break = draw.one(&["\n", "\r\n", "\\n", "\n    "]);
    let lines: Vec<_> = (0..draw.between(3, 12))
        .map(|_| draw.text(BASE64, 64))
        .collect();
    let body = lines.join(line_break);
    let block = format!(
        "-----BEGIN {kind}PRIVATE KEY-----{line_break}{body}{line_break}-----END {kind}PRIVATE KEY-----{line_break}"
    );
    let text = match draw.below(3) {
        0 => block,
        1 => format!("$ cat key.pem\n{block}$ "),
        _ => format!("{{\"private_key\": \"{block}\"}}"),
    };
    let mut sample = Sample::new(format!("private key: {kind}"), text, "");
    sample.bodies = lines;
    sample
}
