"""The shape of examples/leaking_server.rs in Python: three workers answer requests; sessions that have ended stay."""
import random
import sys
import threading
import time
from collections import deque


class Worker:
    def __init__(self, number):
        self.pictures = deque()
        self.sessions = []
        self.random = random.Random(number)

    def parse(self):
        header = bytearray(200 + self.random.randrange(2000))
        fields = [f"field {field} " * 3 for field in range(20)]
        return len(header) + len(fields)

    def render(self, size):
        return bytearray(size * 16)

    def load_picture(self):
        self.pictures.append(bytearray(8000 + self.random.randrange(40000)))
        if len(self.pictures) > 100:
            self.pictures.popleft()

    def remember_session(self):
        self.sessions.append(bytearray(100 + self.random.randrange(900)))

    def answer(self):
        self.render(self.parse())
        if self.random.randrange(4) == 0:
            self.load_picture()
        self.remember_session()


def run(number, end):
    worker = Worker(number)
    while time.monotonic() < end:
        worker.answer()
        time.sleep(number / 1000)


end = time.monotonic() + float(sys.argv[1])
threads = [threading.Thread(target=run, args=(number, end), name=f"worker {number}") for number in (1, 2, 3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
