"""swift_rings.py FOLDER PORT: writes the rings of a Swift that has one device. Run by configure."""
import sys

from swift.common.ring import RingBuilder

# The three kinds of servers listen at the same port, each at an address of its own.
ADDRESSES = {"account": "127.0.0.2", "container": "127.0.0.3", "object": "127.0.0.4"}

if __name__ == "__main__":
    folder, port = sys.argv[1:]
    for name, address in ADDRESSES.items():
        builder = RingBuilder(2, 1, 1)   # 2^2 partitions, one replica, an hour between moves
        builder.add_dev({"region": 1, "zone": 1, "weight": 1, "ip": address, "port": int(port), "device": "disk"})
        builder.rebalance()
        builder.get_ring().save(f"{folder}/{name}.ring.gz")
