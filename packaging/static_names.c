/* Host names are looked up in /etc/hosts and by DNS, as with musl. Otherwise a static program with glibc follows nsswitch.conf,
 * and loads libraries from the host whose glibc is another one. */
#include <nss.h>

__attribute__((constructor)) static void look_up_statically(void)
{
	__nss_configure_lookup("hosts", "files dns");
}
