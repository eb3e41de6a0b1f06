"""A web server for tests, with a certificate of its own."""

import datetime as dt
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Server(ThreadingHTTPServer):
    """A server on this machine.

    Attributes:
        answers: By path the bytes of a file, or a function that is called with the handler and answers.
        asked: The paths of all requests, in order.
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.asked = {}, []
        self.certificate = folder / "authority.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certified(self.certificate))
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        """Say nothing of clients that go away."""

    def address(self, path):
        """The address of a file."""
        return f"https://127.0.0.1:{self.server_port}/{path}"

    def stop(self):
        """End the server."""
        self.shutdown()
        self.server_close()


def serving(monkeypatch, folder):
    """Start a server whose certificate, in a folder, is trusted; the caller stops it."""
    server = Server(folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Answer with a file."""
        self.close_connection = True
        self.server.asked.append(self.path)
        answer = self.server.answers.get(self.path.removeprefix("/"))
        if callable(answer):
            answer(self)
        elif answer is None:
            self.say(404, b"secret", {"Content-Length": 6})
        else:
            self.say(200, answer, {"Content-Length": len(answer)})

    def say(self, code, body, headers):
        """Answer with a code, headers and a body."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


def _certified(path):
    """A file with a key and a certificate for this machine, which signs itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "t")])
    now, public = dt.datetime.now(dt.UTC), key.public_key()
    others = "content_commitment key_encipherment data_encipherment key_agreement encipher_only decipher_only"
    usage = dict.fromkeys(others.split(), False)
    built = x509.CertificateBuilder(name, name, public, 1, now - dt.timedelta(1), now + dt.timedelta(1))
    for extension, critical in (
        (x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False),
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(public), False),
    ):
        built = built.add_extension(extension, critical)
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    path.write_bytes(key.private_bytes(*plain) + certificate)
    return path
