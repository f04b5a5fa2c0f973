"""A program that does not belong to the run, at the ports of its control plane.

    stranger.py record FILE               the first hello on any network of this host, as raw bytes (root)
    stranger.py attack ADDRESS PORT HELLO says all wrong things, holds half-open connections until its input ends

It prints one line for each kind of attack: its name, and whether the port has closed the connection.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys

CHALLENGE, HELLO = b"LSTEPch1", b"LSTEPhi1"
HELLO_BYTES = 85
ACTORS, WATCH = 3, 2  # purposes (transport/handshake.h)
HALF_OPEN = 200


def record(path):
    """Reads frames from the wire; needs no key, because nothing is encrypted."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    print("recording", flush=True)
    while True:
        frame = wire.recv(1 << 16)
        at = frame.find(HELLO)
        if at >= 0 and len(frame) >= at + HELLO_BYTES:
            with open(path, "wb") as file:
                file.write(frame[at:at + HELLO_BYTES])
            return


def connect(address, port):
    connection = socket.create_connection((address, port), timeout=20)
    challenge = b""
    while len(challenge) < 40 and (more := connection.recv(40 - len(challenge))):
        challenge += more
    return connection, challenge


def is_refused(connection):
    """No byte follows the challenge before the end."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def hello(secret, nonce, purpose, rank):
    """As transport/handshake.h describes it."""
    said = HELLO + struct.pack("<Bi", purpose, rank) + hmac.digest(secret, b"run", hashlib.sha256)[:8] + os.urandom(32)
    return said + hmac.digest(secret, b"hello" + nonce + said, hashlib.sha256)


def basp_handshake():
    """What a process of CAF 0.17 says first: a client handshake without a payload."""
    return struct.pack(">BBBBIQQQ", 1, 0, 0, 0, 0, 0, 0, 0)


def attack(address, port, recorded):
    for name, words in (("garbage", os.urandom(4096)), ("http", b"GET / HTTP/1.1\r\n\r\n"), ("caf", basp_handshake()),
                        ("replayed", recorded), ("oversize", recorded + b"x"), ("early end", recorded[:40])):
        connection, _ = connect(address, port)
        connection.sendall(words)
        if name == "early end":
            connection.shutdown(socket.SHUT_WR)
        print(name, is_refused(connection), flush=True)
    connection, challenge = connect(address, port)
    assert challenge.startswith(CHALLENGE), challenge
    connection.sendall(hello(b"a secret of another run", challenge[8:], ACTORS, 1))
    print("other run", is_refused(connection), flush=True)
    held = [socket.create_connection((address, port), timeout=20) for _ in range(HALF_OPEN)]
    print("half open", len(held) == HALF_OPEN, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(sys.argv[2])
    else:
        with open(sys.argv[4], "rb") as stored:
            attack(sys.argv[2], int(sys.argv[3]), stored.read())
