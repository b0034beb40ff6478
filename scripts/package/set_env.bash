# SPDX-License-Identifier: Apache-2.0
# Sourced by bash: puts the AVSG that this file lies in first in the paths of CANN, libraries, Python and commands.
_avsg_home=${BASH_SOURCE-}
if [ -z "$_avsg_home" ]; then
  unset _avsg_home
  printf '%s\n' 'set_env.bash finds AVSG by its own path, which only bash tells: source it from bash.' >&2
  return 1
fi
case $_avsg_home in */*) _avsg_home=${_avsg_home%/*} ;; *) _avsg_home=. ;; esac
_avsg_home=$(CDPATH='' cd -- "$_avsg_home/.." && printf '%s.' "$PWD")
_avsg_home=${_avsg_home%.}

# NAME DIRECTORY: the directory once, at the front, and no empty element, which would mean the current directory.
_avsg_prepend() {
  [ -d "$2" ] || return 0
  local rest=${!1-}: list=$2
  while [ -n "$rest" ]; do
    [ -z "${rest%%:*}" ] || [ "${rest%%:*}" = "$2" ] || list=$list:${rest%%:*}
    rest=${rest#*:}
  done
  export "$1=$list"
}

[ ! -d "$_avsg_home/op_impl" ] || _avsg_prepend ASCEND_CUSTOM_OPP_PATH "$_avsg_home"
_avsg_prepend LD_LIBRARY_PATH "$_avsg_home/lib"
_avsg_prepend LD_LIBRARY_PATH "$_avsg_home/op_api/lib"
_avsg_prepend PYTHONPATH "$_avsg_home/python"
_avsg_prepend PATH "$_avsg_home/bin"
unset _avsg_home
unset -f _avsg_prepend
