#ifndef BINLOG_PLACE_H
#define BINLOG_PLACE_H

#include "binlog.h"

int place_is_open(struct binlog_place *place, int fd);
int place_leads(struct binlog_place *place);

#endif
