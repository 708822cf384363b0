import hashlib
import socketserver
import sys
import threading


class Watch(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Round(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        for line in self.rfile:
            stamp = hashlib.blake2b(line * 800).hexdigest()
            self.wfile.write(f"{stamp[:16]} by {threading.current_thread().name}\n".encode())


if __name__ == "__main__":
    with Watch(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7404), Round) as watch:
        watch.serve_forever()
