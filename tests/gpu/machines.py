"""Machines as the fake library reads them."""

from __future__ import annotations

MIB = 2**20
L40S = "GPU-00000000-0000-4000-8000-000000000001"
H100 = "GPU-00000000-0000-4000-8000-000000000002"
SMALL = "MIG-11111111-1111-4111-8111-111111111111"
LARGE = "MIG-22222222-2222-4222-8222-222222222222"

PLAIN = f"""
gpu {L40S} NVIDIA L40S
memory {46064 * MIB} {572 * MIB} {8583 * MIB}
cores 18176
capability 8 9
mode 3
busy 37 12
process 1111 5000000000
process 3333 unknown
mps 2222 4000000000
sample 1111 100 30
sample 2222 101 7
"""

# Of its seven slots the first is empty, and the parts are at 1 and 5.
DIVIDED = f"""
gpu {H100} NVIDIA H100 80GB HBM3
memory {81559 * MIB} {300 * MIB} {50 * MIB}
cores 16896
capability 9 0
mig 1 1 7
part {SMALL} 1 16 7 0 NVIDIA H100 80GB HBM3 MIG 1g.10gb
memory {9984 * MIB} 0 {1000 * MIB}
process 4444 {900 * MIB}
part {LARGE} 5 60 2 0 NVIDIA H100 80GB HBM3 MIG 3g.40gb
memory {40448 * MIB} 0 0
"""

SYSTEM = "driver 615.71.09\ncuda 13040\n"
TWO_GPUS = SYSTEM + PLAIN + DIVIDED
