#!/usr/bin/env bash
# Makes sure that this machine has a Vulkan driver: does nothing if it has one, else installs
# Mesa's software driver (lavapipe) with apt. macOS and Windows need none.
set -euo pipefail

[ "$(uname -s)" = Linux ] || exit 0

# A driver is a manifest (an ICD file) that the loader finds; the loader is libvulkan.so.1.
have_driver() {
    local file
    for file in ${VK_DRIVER_FILES:-} ${VK_ICD_FILENAMES:-} \
        /etc/vulkan/icd.d/*.json /usr/share/vulkan/icd.d/*.json \
        /usr/local/share/vulkan/icd.d/*.json /usr/local/etc/vulkan/icd.d/*.json \
        "${XDG_DATA_HOME:-${HOME:-/nonexistent}/.local/share}"/vulkan/icd.d/*.json; do
        [ -e "${file%%:*}" ] && return 0
    done
    return 1
}
have_loader() {
    { ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null; } | grep -q 'libvulkan\.so\.1' && return 0
    compgen -G '/usr/lib*/libvulkan.so.1' >/dev/null || compgen -G '/usr/lib/*/libvulkan.so.1' >/dev/null
}

have_driver && have_loader && exit 0

packages="libvulkan1 mesa-vulkan-drivers"
if ! command -v apt-get >/dev/null; then
    echo "No Vulkan driver found, and no apt-get to install one with." >&2
    echo "Install your GPU's Vulkan driver, or Mesa's software driver (lavapipe), and try again." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "No Vulkan driver found. As root, run: apt-get install $packages" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "No Vulkan driver found: installing $packages" >&2
install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $packages </dev/null >&2
}
# A fresh machine may have no package lists yet, or old ones.
install || { "${as_root[@]}" apt-get update </dev/null >&2 && install; } || {
    echo "Could not install $packages; install a Vulkan driver by hand and try again." >&2
    exit 1
}
