//! Whether a server answers: one request of an AWS service's JSON protocol, by hand.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(5);

/// An operation that a server answers without being asked for anything in particular.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    /// What the header X-Amz-Target begins with.
    pub(super) target: &'static str,
    /// The version of the protocol, which a server may insist on.
    pub(super) json: &'static str,
    /// The service in the scope of the signature.
    pub(super) service: &'static str,
}

/// One request to a port of 127.0.0.1; the servers look at the form of the signature only.
pub(super) fn answers(port: u16, operation: Operation) -> io::Result<()> {
    let Operation {
        name,
        target,
        json,
        service,
    } = operation;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.write_all(
        format!(
            "POST / HTTP/1.1\r\n\
             Host: {address}\r\n\
             Connection: close\r\n\
             Content-Type: application/x-amz-json-{json}\r\n\
             X-Amz-Target: {target}.{name}\r\n\
             X-Amz-Date: 20240101T000000Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20240101/us-east-1/{service}/aws4_request, \
             SignedHeaders=host, Signature=0\r\n\
             Content-Length: 2\r\n\
             \r\n\
             {{}}"
        )
        .as_bytes(),
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = answer.lines().next().unwrap_or("nothing");
    Err(io::Error::other(format!("{name} answered {line}")))
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    const LIST_TABLES: Operation = Operation {
        name: "ListTables",
        target: "DynamoDB_20120810",
        json: "1.0",
        service: "dynamodb",
    };

    fn answered_with(answer: &'static str) -> io::Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n{}") {
                let mut byte = [0];
                connection.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            connection.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        let result = answers(port, LIST_TABLES);
        let request = server.join().unwrap();
        result.map(|()| request)
    }

    #[test]
    fn a_server_that_answers_the_operation_is_up() {
        let request = answered_with("HTTP/1.1 200 OK\r\n\r\n{\"TableNames\":[]}").unwrap();
        assert!(request.contains("X-Amz-Target: DynamoDB_20120810.ListTables\r\n"));
        assert!(request.contains("Content-Type: application/x-amz-json-1.0\r\n"));
        assert!(request.contains("/us-east-1/dynamodb/aws4_request"));
    }

    #[test]
    fn a_server_that_answers_with_an_error_is_not_up() {
        let error = answered_with("HTTP/1.1 500 Internal Server Error\r\n\r\n").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("ListTables answered HTTP/1.1 500"),
            "{error}"
        );
    }

    #[test]
    fn a_server_that_says_nothing_is_not_up() {
        let error = answered_with("").unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
    }
}
