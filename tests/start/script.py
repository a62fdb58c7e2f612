# Python: what a callback has in its closure stays.
callbacks = []


def load(number):
    table = bytearray(1_000_000)
    table[0] = number
    return lambda: table[0]


for number in range(40):
    callbacks.append(load(number))
print(sum(callback() for callback in callbacks))
