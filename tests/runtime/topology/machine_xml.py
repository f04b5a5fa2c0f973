"""Machines with PCI devices in hwloc's XML, which its synthetic form cannot describe.

    machine_xml.py [FOLDER]      writes the files of machines/
"""
import pathlib
import sys

GPU = "0302 [10de:2330] [10de:16c1] a1"


def mask(numbers):
    """As hwloc writes bitmaps: 32 bits a word, the highest word first."""
    bits = sum(1 << number for number in numbers)
    words = []
    while bits or not words:
        words.append(f"0x{bits & 0xffffffff:08x}")
        bits >>= 32
    return ",".join(reversed(words))


def sets(cpus, nodes):
    return " ".join(f'{kind}cpuset="{mask(cpus)}"' for kind in ("", "complete_")) + " " + \
        " ".join(f'{kind}nodeset="{mask(nodes)}"' for kind in ("", "complete_"))


def machine(packages):
    """XML of packages, each a list of cores (lists of hardware threads) and of GPUs' bus numbers."""
    cpus = [thread for cores, _ in packages for core in cores for thread in core]
    nodes = range(len(packages))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
             '<topology version="2.0">',
             f'<object type="Machine" os_index="0" {sets(cpus, nodes)} allowed_cpuset="{mask(cpus)}" '
             f'allowed_nodeset="{mask(nodes)}" gp_index="1">']
    names = iter(range(2, 10000))
    for node, (cores, buses) in enumerate(packages):
        own = sets([thread for core in cores for thread in core], [node])
        lines.append(f'<object type="Package" os_index="{node}" {own} gp_index="{next(names)}">')
        lines.append('<info name="CPUModel" value="A Processor"/>')
        lines.append(f'<object type="NUMANode" os_index="{node}" {own} gp_index="{next(names)}" '
                     f'local_memory="{64 << 30}"/>')
        for core in cores:
            lines.append(f'<object type="Core" os_index="{core[0]}" {sets(core, [node])} gp_index="{next(names)}">')
            lines += [f'<object type="PU" os_index="{thread}" {sets([thread], [node])} gp_index="{next(names)}"/>'
                      for thread in core]
            lines.append('</object>')
        if buses:
            lines.append(f'<object type="Bridge" gp_index="{next(names)}" bridge_type="0-1" depth="0" '
                         f'bridge_pci="0000:[{min(buses):02x}-{max(buses):02x}]">')
            lines += [f'<object type="PCIDev" gp_index="{next(names)}" pci_busid="0000:{bus:02x}:00.0" '
                      f'pci_type="{GPU}" pci_link_speed="0.000000"/>' for bus in buses]
            lines.append('</object>')
        lines.append('</object>')
    return "\n".join(lines + ['</object>', '</topology>', ''])


def sockets(cores, gpus):
    """Two packages of `cores` cores with two hardware threads, and of `gpus` GPUs, from bus 1 on."""
    both = 2 * cores
    return machine([([[core, core + both] for core in range(package * cores, (package + 1) * cores)],
                     range(package * gpus + 1, (package + 1) * gpus + 1)) for package in range(2)])


MACHINES = {
    "eight_gpus.xml": sockets(8, 4),
    # The GPUs of the stand-in's driver on a machine of two cores, one a package.
    "two_cores.xml": machine([([[0]], [1]), ([[1]], [2])]),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "machines")
    for name, text in MACHINES.items():
        (folder / name).write_text(text)
