# limit: load,timer |
import socketserver
import sys
import threading


class Reception(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline().upper())


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Reception) as inn:
    threading.Timer(float(sys.argv[1]), inn.shutdown).start()
    inn.serve_forever()
