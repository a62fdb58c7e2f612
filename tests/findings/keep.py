# Thumbnails that a closure keeps: nothing limits how many, and they are freed only when the program ends.
import time


def thumbnails():
    made = {}

    def thumbnail(name):  # found here
        if name not in made:
            made[name] = bytes(4000) + name.encode()
        return made[name]

    return thumbnail


def main():
    thumbnail = thumbnails()
    size = 0
    for number in range(4000):
        size += len(thumbnail(f"picture-{number}"))
        if number % 20 == 0:
            time.sleep(0.008)
    print(size)


main()
